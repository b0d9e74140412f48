"""Rows with the same outcomes count as one row."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.ranking.paired.differences_to_best import differences_to_best
from bln_search.ranking.paired.distinct_rows import find_distinct_rows
from bln_search.ranking.paired.table import OutcomeTable
from tests.ranking.tables import draw


@pytest.mark.parametrize("unit", [1e-7, 1.0])
def test_rows_that_differ_are_not_equal_in_any_unit(unit):
    table = draw(np.random.default_rng(2), seeds=3, rows=5, of_seed=0.5, difference=0.2)
    rows = find_distinct_rows((unit * np.abs(table.losses)).astype(np.float32))
    assert rows.of_row.tolist() == rows.kept.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("copies", [[1], [1, 1, 1], [0, 2, 4]])
def test_copies_change_no_figure_of_the_others(copies):
    """Copies, up to rounding, have the figures of their row, and none where it is the best one."""
    table = draw(np.random.default_rng(2), seeds=3, rows=5, of_seed=0.5, difference=0.2)
    rounding = 1 + 1e-6 * np.sin(np.arange(len(copies)))[:, None]
    losses = np.concatenate([table.losses, table.losses[:, copies] * rounding.astype(np.float32)], axis=1)
    assert find_distinct_rows(losses).of_row.tolist() == [0, 1, 2, 3, 4, *copies]
    alone = differences_to_best(table, "loss", 0, 0.1)
    both = differences_to_best(OutcomeTable(losses, losses < 0), "loss", 0, 0.1)
    original = np.r_[np.arange(5), copies]
    for field in ("mean", "half", "p", "adjusted", "variance", "beyond_margin", "opposite_margin"):
        np.testing.assert_allclose(getattr(both, field), getattr(alone, field)[original], rtol=1e-3)


def test_rows_equal_to_the_best_one_differ_by_nothing():
    losses = np.repeat(draw(np.random.default_rng(0), seeds=3, rows=1).losses, 3, axis=1)
    differences = differences_to_best(OutcomeTable(losses, losses < 0), "loss", 0, 0.1)
    assert differences.mean.tolist() == differences.half.tolist() == differences.beyond_margin.tolist() == [0, 0, 0]
    assert differences.adjusted.tolist() == [1, 1, 1]
