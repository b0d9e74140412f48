"""The moment of a collapse is found beside the arm without adaptation, and none where both find examples difficult."""

import numpy as np
import pytest

from bln_search.core.stream_outcomes import find_collapse

STARTS = np.arange(0, 1000, 10)


def correct_with(*shares: tuple[int, float], seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.random(examples) < share for examples, share in shares])


REFERENCE = correct_with((1000, 0.7), seed=1)


def test_a_collapse_begins_where_predictions_fall_for_good():
    found = find_collapse(correct_with((500, 0.8), (500, 0.1)), REFERENCE, STARTS)
    assert found is not None
    assert 40 <= found <= 52


def test_a_constant_prediction_collapses_though_its_class_comes_last():
    labels = np.repeat(np.arange(10), 100)
    correct = np.where(np.arange(1000) < 50, REFERENCE, labels == 9)
    found = find_collapse(correct, REFERENCE, STARTS)
    assert found is not None
    assert found <= 6


@pytest.mark.parametrize(
    "shares",
    [
        [(1000, 0.8)],
        [(1000, 0.5)],
        [(500, 0.1), (500, 0.8)],
        [(400, 0.8), (200, 0.1), (400, 0.8)],
        [(950, 0.8), (50, 0.0)],
    ],
    ids=["good", "poorer", "recovered", "in between", "last twentieth"],
)
def test_other_streams_have_no_collapse(shares):
    assert find_collapse(correct_with(*shares), REFERENCE, STARTS) is None


def test_a_part_that_is_difficult_for_every_arm_is_no_collapse():
    difficult = correct_with((800, 0.8), (200, 0.02))
    assert find_collapse(difficult, correct_with((800, 0.8), (200, 0.02), seed=3), STARTS) is None


def test_an_arm_that_never_was_good_collapsed_at_the_start():
    assert find_collapse(correct_with((1000, 0.1)), REFERENCE, STARTS) == 0


def test_a_short_stream_has_no_collapse():
    assert find_collapse(np.zeros(15, np.bool_), np.ones(15, np.bool_), np.arange(0, 15, 5)) is None
