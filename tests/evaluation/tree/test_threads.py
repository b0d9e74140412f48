"""Groups of mini-batches are evaluated at the same time, one by each thread of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.errors import DataError
from bln_search.evaluation.tree import tree_evaluator
from bln_search.norms.row_batching.parallel import count_independent_threads
from tests.evaluation.tree.builders import TINY_LIMIT, make_evaluator
from tests.support.tiers import thinned


@pytest.fixture(params=[2, pytest.param(3, marks=pytest.mark.slow)])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    if count_independent_threads() != request.param:
        pytest.skip("torch uses no GNU OpenMP here")
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def simultaneous(monkeypatch):
    """Numbers of groups that were evaluated at the same time."""
    counts = []
    original = tree_evaluator.map_in_threads

    def record_count(function, items):
        counts.append(len(items))
        return original(function, items)

    monkeypatch.setattr(tree_evaluator, "map_in_threads", record_count)
    return counts


def sums_in_one_thread(evaluator):
    evaluator._threads = 1
    return evaluator.sum_scores_of_all_configurations()


@pytest.mark.parametrize(
    ("name", "folds"), thinned([("mlp", None), ("mlp", [0, 1, 0, 1, 0, 1]), ("residual", None)], 3, start=1)
)
def test_sums_equal_those_of_one_thread(threads, simultaneous, name, folds):
    found = make_evaluator(name, n=33, folds=folds).sum_scores_of_all_configurations()
    assert max(simultaneous) == (threads if folds is None else min(threads, 3))
    expected = sums_in_one_thread(make_evaluator(name, n=33, folds=folds))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-12)
    np.testing.assert_array_equal(found.correct, expected.correct)
    np.testing.assert_array_equal(found.examples, expected.examples)


def test_groups_that_exceed_the_memory_together_are_evaluated_one_after_another(threads, simultaneous):
    evaluator = make_evaluator("mlp")
    needed = threads * max(*evaluator._memory_plan.path_bytes, 16 * evaluator.space.num_configurations)
    for memory_limit, expected in ((needed, threads), (needed - 1, 1), (0, 1)):
        assert make_evaluator("mlp", memory_limit=memory_limit)._threads == expected
    make_evaluator("mlp", memory_limit=needed - 1).sum_scores_of_all_configurations()
    assert set(simultaneous) == {1}


def test_an_error_of_one_group_ends_the_enumeration(threads):
    evaluator = make_evaluator("mlp", n=33, memory_limit=TINY_LIMIT)
    evaluator._is_checked = True
    inputs, targets = evaluator.batches[-1]
    evaluator.batches[-1] = inputs, targets + 1_000
    with pytest.raises(DataError):
        evaluator.sum_scores_of_all_configurations()
