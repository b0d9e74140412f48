"""The row that is selected over conditions, and when it replaces the row as deployed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bln_search.ranking.paired.condition_selection import select_row_over_conditions
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.selection.condition_criteria import Criterion, compute_criterion_values
from tests.ranking.conditions import draw_conditions
from tests.support.tiers import thinned


def select(tables, criterion, independent=None, current=None, margin=0.01):
    rows = tables[0].num_rows
    return select_row_over_conditions(
        tables,
        criterion,
        independent=independent or [False] * rows,
        computed=[1] * rows,
        current=current,
        margin=margin,
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


@pytest.mark.parametrize("criterion", Criterion)
@pytest.mark.parametrize(("sizes", "shared"), thinned([((40, 40), 1.0), ((30, 50), 0.0)], 2))
def test_an_equal_row_in_use_is_mostly_kept(criterion, sizes, shared, repetitions):
    rng = np.random.default_rng([*sizes, 11])
    replaced = 0
    for _ in range(repetitions):
        tables = draw_conditions(rng, sizes, np.zeros((4, 2)), shared=shared)
        replaced += not select(tables, criterion, current=3).keeps_current
    assert replaced / repetitions <= 0.35


@pytest.mark.parametrize("criterion", list(Criterion))
@pytest.mark.parametrize(("error", "is_kept"), [(0.02, False), (0.05, True)])
def test_row_in_use_is_kept_where_a_change_may_do_harm(criterion, error, is_kept):
    """The other rows are far apart, so a difference of 0.04 ± error is expected to be true."""
    noise = np.random.default_rng(0).normal(size=400)
    noise = error * np.sqrt(400) * (noise - noise.mean()) / noise.std(ddof=1)
    losses = np.stack([1 + 0 * noise, 1.04 + noise, 2 + 0 * noise, 3 + 0 * noise, 4 + 0 * noise])[None]
    table = OutcomeTable(losses.astype(np.float32), np.zeros(losses.shape, bool))
    targets = np.arange(400)
    tables = [replace(table, targets=targets), replace(table, targets=targets)]
    assert select(tables, criterion, current=1).keeps_current == is_kept
