"""The moment of a collapse is found, and none where predictions stay better than chance."""

import numpy as np
import pytest

from bln_search.core.stream_outcomes import find_collapse

STARTS = np.arange(0, 1000, 10)


def correct_with(*shares: tuple[int, float]) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.concatenate([generator.random(examples) < share for examples, share in shares])


def test_a_collapse_begins_where_predictions_fall_to_chance_until_the_end():
    found = find_collapse(correct_with((500, 0.8), (500, 0.1)), STARTS, classes=10)
    assert found is not None
    assert 48 <= found <= 52


@pytest.mark.parametrize(
    "shares",
    [
        [(1000, 0.8)],
        [(1000, 0.3)],
        [(500, 0.1), (500, 0.8)],
        [(400, 0.8), (200, 0.1), (400, 0.8)],
        [(950, 0.8), (50, 0.0)],
    ],
    ids=["good", "poor", "recovered", "in between", "last twentieth"],
)
def test_other_streams_have_no_collapse(shares):
    assert find_collapse(correct_with(*shares), STARTS, classes=10) is None


def test_an_arm_that_never_was_better_than_chance_collapsed_at_the_start():
    assert find_collapse(correct_with((1000, 0.1)), STARTS, classes=10) == 0


def test_a_short_stream_has_no_collapse():
    assert find_collapse(np.zeros(15, np.bool_), np.arange(0, 15, 5), classes=2) is None
