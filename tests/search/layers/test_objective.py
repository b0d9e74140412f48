"""The budget of a search is never exceeded, and no evaluation is paid twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.search.layers.objective import BudgetedObjective, BudgetSpentError
from tests.search.layers.tables import additive, plain_space, table_source

SPACE = plain_space(2)
MEANS = additive(SPACE)


def objective(budget, batches=range(12)):
    return BudgetedObjective(table_source(SPACE, MEANS), batches, budget)


def rows(*indices):
    return np.array([SPACE.choice_digits_at_index(index) for index in indices], np.uint8)


def test_losses_are_means_over_examples():
    chosen = [1, 11]
    source = table_source(SPACE, MEANS)
    losses = objective(10, chosen).mean_losses(rows(3, 200))
    np.testing.assert_allclose(losses, source.sum_losses(rows(3, 200), chosen).sum(1) / 35, rtol=1e-12)


def test_repeated_configurations_cost_nothing():
    budgeted = objective(5)
    first = budgeted.mean_losses(rows(1, 2, 2, 3))
    assert (budgeted.spent, budgeted.remaining_evaluations) == (3, 2)
    assert first[1] == first[2]
    np.testing.assert_array_equal(budgeted.mean_losses(rows(3, 1)), first[[3, 0]])
    assert budgeted.spent == 3


def test_affordable_configurations_are_evaluated_before_the_end():
    budgeted = objective(3)
    with pytest.raises(BudgetSpentError):
        budgeted.mean_losses(rows(10, 20, 30, 40, 50))
    assert (budgeted.spent, budgeted.remaining_evaluations) == (3, 0)
    assert budgeted.best.digits == min(
        (SPACE.choice_digits_at_index(index) for index in (10, 20, 30)),
        key=lambda digits: MEANS[SPACE.index_of_choice_digits(digits)],
    )
    assert len(budgeted.mean_losses(rows(10, 20, 30))) == 3
    with pytest.raises(BudgetSpentError):
        budgeted.mean_losses(rows(40))
    assert budgeted.spent == 3


def test_partial_losses_cost_by_number_of_examples():
    budgeted = objective(2)
    sum_losses_by_mini_batch = budgeted.sum_losses_by_mini_batch(rows(1, 2), [0, 11])
    np.testing.assert_array_equal(sum_losses_by_mini_batch, table_source(SPACE, MEANS).sum_losses(rows(1, 2), [0, 11]))
    assert budgeted.spent == pytest.approx(2 * 35 / 285)
    budgeted.sum_losses_by_mini_batch(rows(1, 2), [11, 0])
    assert budgeted.spent == pytest.approx(2 * 35 / 285)
    budgeted.sum_losses_by_mini_batch(rows(1), range(12))
    assert budgeted.spent == pytest.approx(1 + 35 / 285)
    assert not budgeted.improvements  # a part is no judgement


def test_unaffordable_partial_losses_are_not_evaluated():
    budgeted = objective(1)
    with pytest.raises(BudgetSpentError):
        budgeted.sum_losses_by_mini_batch(rows(1, 2), range(12))
    assert budgeted.spent == 0
    budgeted.sum_losses_by_mini_batch(rows(1), range(12))
    assert budgeted.remaining_evaluations == pytest.approx(0)


def test_partial_losses_of_evaluated_configurations_are_free():
    budgeted = objective(1)
    budgeted.mean_losses(rows(7))
    budgeted.sum_losses_by_mini_batch(rows(7), [3, 4])
    assert budgeted.spent == 1


def test_commit_of_partial_losses_costs_nothing():
    budgeted = objective(2)
    budgeted.sum_losses_by_mini_batch(rows(4, 5), range(12))
    budgeted.record_paid_mean_losses(rows(4, 5))
    assert budgeted.spent == pytest.approx(2)
    assert budgeted.best.digits == min(
        (SPACE.choice_digits_at_index(4), SPACE.choice_digits_at_index(5)),
        key=lambda digits: MEANS[SPACE.index_of_choice_digits(digits)],
    )
    assert budgeted.mean_losses(rows(4, 5)) == pytest.approx(objective(2).mean_losses(rows(4, 5)))


def test_first_of_equal_configurations_stays_the_best():
    budgeted = BudgetedObjective(table_source(SPACE, np.ones(256), noise=0), range(12), 10)
    budgeted.mean_losses(rows(9, 3, 200))
    assert [improvement.digits for improvement in budgeted.improvements] == [SPACE.choice_digits_at_index(9)]


@given(st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=8), max_size=20), st.floats(0, 40))
def test_improvements_decrease_within_the_budget(requests, budget):
    budgeted = objective(budget)
    try:
        for indices in requests:
            budgeted.mean_losses(rows(*indices))
    except BudgetSpentError:
        assert budgeted.spent == int(budget + 1e-9)
    assert budgeted.spent == len(budgeted._losses) <= budget + 1e-9
    losses = [improvement.loss for improvement in budgeted.improvements]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == len(losses)
    spent = [improvement.evaluations for improvement in budgeted.improvements]
    assert spent == sorted(spent)
    if budgeted.improvements:
        assert budgeted.best.loss == min(budgeted._losses.values())
