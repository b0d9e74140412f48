"""Every row beside the best one, on the mean over conditions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bln_search.core.errors import DataError
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.paired.condition_comparison import (
    compare_rows_over_conditions,
    differences_of_condition_means,
)
from tests.ranking.conditions import draw_conditions
from tests.ranking.tables import band

MEANS = [[0.0, 0.0], [0.5, 0.6], [0.6, 1.0]]


def test_differences_are_students_tests_over_examples_with_holms_correction():
    tables = draw_conditions(np.random.default_rng(1), (60, 60), MEANS, shared=1.0)
    differences = differences_of_condition_means(tables, 0, 0.1)
    mean = (tables[0].losses[0].astype(np.float64) + tables[1].losses[0]) / 2
    p = [stats.ttest_rel(mean[first], mean[second]).pvalue for first, second in ((1, 0), (2, 0), (2, 1))]
    assert differences.p[1:] == pytest.approx(p[:2], rel=1e-6)
    expected = np.minimum(multipletests(p, method="holm")[1][:2], max(p[:2]))
    assert differences.adjusted[1:] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sizes", [(80, 80), (60, 100)])
def test_rows_of_other_means_are_worse(sizes):
    tables = draw_conditions(np.random.default_rng(2), sizes, [*MEANS, [1.5, 2.0]], noise=0.3)
    verdicts = compare_rows_over_conditions(tables, 0.01)
    assert verdicts == [RowVerdict.BEST, *[RowVerdict.WORSE] * 3]


def test_equal_rows_over_conditions_are_practically_equal():
    tables = draw_conditions(np.random.default_rng(3), (80, 80), [[0.0, 0.0]])
    copies = [type(table)(np.repeat(table.losses, 2, axis=1), np.repeat(table.correct, 2, axis=1)) for table in tables]
    assert compare_rows_over_conditions(copies, 0.0) == [RowVerdict.BEST, RowVerdict.PRACTICALLY_EQUAL]


def test_other_rows_in_a_condition_are_an_error():
    first, second = (draw_conditions(np.random.default_rng(0), (20,), means)[0] for means in (MEANS, MEANS[:2]))
    with pytest.raises(DataError, match="same seeds and rows"):
        compare_rows_over_conditions([first, second], 0.01)


@pytest.mark.parametrize(("sizes", "shared"), [((40, 40, 40), 1.0), ((30, 50, 40), 0.0)])
def test_equal_rows_rarely_differ(sizes, shared, repetitions):
    rng = np.random.default_rng([*sizes, 7])
    alarms = 0
    for _ in range(repetitions):
        tables = draw_conditions(rng, sizes, np.zeros((3, 3)), shared=shared)
        best = int(np.mean([table.losses.mean(axis=(0, 2)) for table in tables], axis=0).argmin())
        alarms += (differences_of_condition_means(tables, best, 0.0).adjusted < 0.05).any()
    assert alarms / repetitions <= band(0.05, repetitions)[1]
