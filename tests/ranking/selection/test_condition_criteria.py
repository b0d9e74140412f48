"""Mean, worst loss and regret of rows over conditions."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.ranking.selection.condition_criteria import (
    Criterion,
    compute_criterion_values,
    deciding_condition_by_row,
    regret_by_row_and_condition,
)

LOSSES = np.array([[1.0, 4.0, 2.0], [2.0, 3.0, 2.5], [1.5, 1.0, 9.0]])


def by_loop(losses, criterion):
    rows, conditions = losses.shape
    lowest = [min(losses[row, condition] for row in range(rows)) for condition in range(conditions)]
    values = []
    for row in range(rows):
        line = [losses[row, condition] for condition in range(conditions)]
        above = [line[condition] - lowest[condition] for condition in range(conditions)]
        values.append({"mean": sum(line) / conditions, "worst": max(line), "regret": max(above)}[criterion])
    return values


@pytest.mark.parametrize("criterion", Criterion)
def test_values_equal_a_loop_over_the_definition(criterion):
    assert compute_criterion_values(LOSSES, criterion) == pytest.approx(by_loop(LOSSES, criterion))


def test_the_best_row_of_a_condition_has_no_regret():
    assert (regret_by_row_and_condition(LOSSES).min(axis=0) == 0).all()


@pytest.mark.parametrize(("criterion", "expected"), [(Criterion.WORST, [1, 1, 2]), (Criterion.REGRET, [1, 1, 2])])
def test_deciding_condition_gives_the_value(criterion, expected):
    deciding = deciding_condition_by_row(LOSSES, criterion)
    assert deciding.tolist() == expected
    source = regret_by_row_and_condition(LOSSES) if criterion is Criterion.REGRET else LOSSES
    assert source[np.arange(3), deciding] == pytest.approx(compute_criterion_values(LOSSES, criterion))
