"""The row that is selected over conditions, and when it replaces the row as deployed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bln_search.ranking.paired.condition_selection import select_row_over_conditions
from bln_search.ranking.selection.condition_criteria import Criterion, compute_criterion_values
from tests.ranking.conditions import draw_conditions
from tests.ranking.tables import band


def select(tables, criterion, independent=None, current=None):
    rows = tables[0].num_rows
    return select_row_over_conditions(
        tables, criterion, independent=independent or [False] * rows, computed=[1] * rows, current=current
    )


@pytest.mark.parametrize("criterion", Criterion)
@pytest.mark.parametrize("sizes", [(200, 200, 200), (150, 250, 200)])
def test_each_criterion_selects_its_own_row(criterion, sizes):
    """Row 0 has the lowest mean, row 1 the lowest highest loss, row 2 the least regret."""
    means = [[1.0, 1.0, 3.2], [2.4, 2.4, 2.6], [1.6, 1.7, 3.0], [0.9, 3.0, 2.1]]
    selected = select(draw_conditions(np.random.default_rng(0), sizes, means, noise=0.1), criterion)
    values = compute_criterion_values(np.asarray(means), criterion)
    assert selected.row == int(values.argmin())
    assert selected.excess == 0


@pytest.mark.parametrize("criterion", Criterion)
def test_an_independent_row_near_the_lowest_is_preferred(criterion):
    means = [[1.0, 2.0], [1.005, 2.005], [1.5, 2.5]]
    tables = draw_conditions(np.random.default_rng(1), (2000, 2000), means, noise=0.05, residual=0.03)
    selected = select(tables, criterion, independent=[False, True, True])
    assert (selected.row, selected.best) == (1, 0)
    assert 0 < selected.excess < selected.excess_upper
    assert select(tables, criterion, independent=[False, False, True]).row == 0


@pytest.mark.parametrize("criterion", Criterion)
def test_the_deployed_row_is_replaced_by_a_better_one_only(criterion):
    means = [[1.0, 2.0], [1.0, 2.02], [1.0, 2.5]]
    tables = draw_conditions(np.random.default_rng(2), (100, 100), means, noise=0.3)
    kept = select(tables, criterion, current=1)
    assert kept.row == 1
    assert kept.keeps_current
    replaced = select(tables, criterion, current=2)
    assert replaced.row in (0, 1)
    assert not replaced.keeps_current
    assert replaced.p_current < 0.05


def test_p_of_the_mean_is_students_test_with_holms_correction():
    tables = draw_conditions(np.random.default_rng(3), (60, 60), [[0.0, 0.0], [0.6, 0.5], [0.7, 0.9]])
    mean = (tables[0].losses[0].astype(float) + tables[1].losses[0]) / 2
    p = [stats.ttest_rel(mean[2], mean[row]).pvalue for row in (0, 1)]
    selected = select(tables, Criterion.MEAN, current=2)
    assert selected.p_current == pytest.approx(multipletests(p, method="holm")[1][0], rel=1e-6)


def test_p_of_the_worst_is_that_of_all_its_differences():
    """Largest p of the condition over those of the other row, times the number of conditions; one other row."""
    tables = draw_conditions(np.random.default_rng(4), (80, 80), [[1.0, 1.2], [1.1, 1.6]], noise=0.5)
    losses = [table.losses[0].astype(float) for table in tables]
    smallest = 1.0
    for own in losses:
        largest = 0.0
        for other in losses:
            gain = own[1] - other[0]
            largest = max(largest, stats.ttest_1samp(gain, 0.0).pvalue if gain.mean() > 0 else 1.0)
        smallest = min(smallest, largest)
    selected = select(tables, Criterion.WORST, current=1)
    assert selected.row == 0
    assert selected.p_current == pytest.approx(2 * smallest, rel=1e-6)


@pytest.mark.parametrize("criterion", Criterion)
@pytest.mark.parametrize(("sizes", "shared"), [((40, 40), 1.0), ((30, 50), 0.0)])
def test_an_equal_deployed_row_is_rarely_replaced(criterion, sizes, shared, repetitions):
    rng = np.random.default_rng([*sizes, 11])
    replaced = 0
    for _ in range(repetitions):
        tables = draw_conditions(rng, sizes, np.zeros((4, 2)), shared=shared)
        replaced += not select(tables, criterion, current=3).keeps_current
    assert replaced / repetitions <= band(0.05, repetitions)[1]
