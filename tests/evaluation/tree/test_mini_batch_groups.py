"""Adjacent mini-batches of one shape are evaluated together, as many as fit a chunk with all options of a layer."""

from __future__ import annotations

import pytest

from tests.evaluation.builders import SIZE
from tests.evaluation.tree.builders import make_evaluator

OPTIONS = 16


def groups(positions, *, n=5 * SIZE, batches_in_chunk=5):
    """Groups of mini-batches where this many fit a chunk."""
    path_bytes = make_evaluator("mlp")._memory_plan.path_bytes[1]
    evaluator = make_evaluator("mlp", n=n, memory_limit=batches_in_chunk * OPTIONS * path_bytes)
    return list(evaluator._iter_groups_of_batches(positions))


@pytest.mark.parametrize(
    ("batches_in_chunk", "expected"),
    [
        (5, [[0, 1, 2, 3, 4]]),
        (3, [[0, 1, 2], [3, 4]]),
        (2, [[0, 1], [2, 3], [4]]),
        (1, [[0], [1], [2], [3], [4]]),
        (0, [[0], [1], [2], [3], [4]]),
    ],
)
def test_a_group_is_as_large_as_a_chunk(batches_in_chunk, expected):
    assert groups(range(5), batches_in_chunk=batches_in_chunk) == expected


def test_only_adjacent_mini_batches_are_grouped():
    assert groups([0, 1, 3, 4, 2]) == [[0, 1], [3, 4], [2]]


def test_a_mini_batch_with_filler_examples_is_alone():
    assert groups(range(4), n=3 * SIZE + 1) == [[0, 1, 2], [3]]
