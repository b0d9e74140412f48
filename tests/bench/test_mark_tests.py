"""The simulation of the tests of claims: p values are those of the tests that it names, and errors are counted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bench.mark_tests import TESTS, PairTests, measure_error, measure_power
from bench.support.answers.tables import compare_with_row
from bln_search.ranking.statistics.intervals import adjust_p_values_by_holm


def test_claimed_pairs_are_significant_by_holm_of_the_t_test_or_by_the_ranking_of_all_pairs():
    rng = np.random.default_rng(1)
    for _ in range(20):
        means = rng.normal(size=(5, 6)) + 2.5 * rng.integers(0, 2, 6)
        table = PairTests(means)
        found = table.significant_pairs(table.claims(2)["one with all"])
        pairs = list(zip(*table.pairs, strict=True))
        places = [place for place, pair in enumerate(pairs) if 2 in pair]
        p = [stats.ttest_rel(means[:, first], means[:, second]).pvalue for first, second in (pairs[i] for i in places)]
        expected = dict(zip(places, np.array(adjust_p_values_by_holm(p)) < 0.05, strict=True))
        assert found["t"].tolist() == [expected.get(place, False) for place in range(len(pairs))]
        ranked = compare_with_row(means, 2).adjusted < 0.05
        of_others = [ranked[first + second - 2] for first, second in (pairs[i] for i in places)]
        assert found["moderated"][places].tolist() == of_others


@pytest.mark.parametrize("variances", ["equal", "two groups"])
def test_equal_rows_are_rarely_different_and_others_are_found(variances):
    error, power = measure_error(variances, 4, 3, 40), measure_power(variances, 4, 3, 20)
    for part in ("one with all", "all pairs"):
        assert set(error[part]) == set(power[part]) == set(TESTS)
        assert max(error[part].values()) <= 6 / 40
        assert min(power[part].values()) > 0.3
