"""The difference of two chosen rows: stored, or from the losses by seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.paired.compare import compare_rows
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.selection.row_difference import compute_difference_over_seeds, find_compared_difference

KEYS = [RowKey("bn", "", InferenceConfiguration(code), "frozen", 25) for code in ("TT--", "TF--", "FT--")]


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(0)
    losses = rng.random((3, 3, 40)).astype(np.float32) + np.array([0.0, 0.1, 0.6], np.float32)[None, :, None]
    return compare_rows(KEYS, OutcomeTable(losses, losses < 0.7), Split.VALIDATION)


def test_stored_difference_is_second_minus_first(comparison):
    above = comparison.rows[2].above_best
    first, second = comparison.rows[0].key, comparison.rows[2].key
    difference = find_compared_difference(first, second, comparison)
    assert difference.mean == pytest.approx(comparison.rows[2].loss - comparison.rows[0].loss)
    assert (difference.low, difference.high) == (above.low, above.high)
    assert (difference.p, difference.adjusted) == (above.adjusted, True)
    assert difference.accuracy.mean == pytest.approx(comparison.rows[2].accuracy - comparison.rows[0].accuracy)
    assert difference.is_significant == comparison.rows[2].is_worse


def test_reversed_order_has_the_opposite_sign(comparison):
    first, second = comparison.rows[0].key, comparison.rows[1].key
    forward, backward = (
        find_compared_difference(first, second, comparison),
        find_compared_difference(second, first, comparison),
    )
    assert (backward.mean, backward.low, backward.high) == (-forward.mean, -forward.high, -forward.low)
    assert backward.p == forward.p


def test_rows_outside_the_comparison_have_no_stored_difference(comparison):
    other = KEYS[0]._replace(batch_size=5)
    assert find_compared_difference(KEYS[0], other, comparison) is None
    assert find_compared_difference(KEYS[0], KEYS[1], None) is None
    assert find_compared_difference(comparison.rows[1].key, comparison.rows[2].key, comparison) is None


def test_difference_by_seeds_is_a_paired_t_test():
    first, second = {0: 0.50, 1: 0.60, 2: 0.55, 3: 0.58}, {0: 0.56, 1: 0.63, 2: 0.57, 3: 0.69}
    difference = compute_difference_over_seeds(first, second)
    expected = stats.ttest_rel(list(second.values()), list(first.values()))
    interval = expected.confidence_interval(0.95)
    assert difference.p == pytest.approx(expected.pvalue)
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high))
    assert math.isclose(difference.mean, 0.055)
    assert not difference.adjusted


def test_other_seeds_have_an_interval_without_p():
    difference = compute_difference_over_seeds({0: 0.5, 1: 0.6}, {2: 0.7, 3: 0.9})
    assert difference.mean == pytest.approx(0.25)
    assert difference.low < 0.25 < difference.high
    assert (difference.p, difference.paired, difference.is_significant) == (None, False, False)


def test_one_seed_has_a_mean_alone():
    difference = compute_difference_over_seeds({0: 0.5}, {0: 0.7})
    assert difference.mean == pytest.approx(0.2)
    assert (difference.low, difference.high, difference.p) == (None, None, None)
