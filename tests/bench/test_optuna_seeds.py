"""The simulation of `SeedPruner`: equal arms are not pruned, and arms that are much worse are."""

from __future__ import annotations

import pytest

from bench.optuna_seeds import CASES, measure_errors, measure_savings

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "noise"), CASES)
def test_equal_arms_are_pruned_or_called_worse_in_few_studies(sampler, noise):
    assert measure_errors(sampler, noise, 30)["pruned_or_declared"] <= 4 / 30  # P < 2 % at an error rate of 5 %


def test_equal_arms_are_pruned_in_no_study_of_a_few():
    assert measure_errors("tpe", "equal", 4)["pruned_or_declared"] == 0


def test_arms_that_are_much_worse_cost_a_part_of_their_seeds_and_the_best_one_stays():
    result = measure_savings(10.0, 10, 2)
    assert result["saved"] > 0.2
    assert result["best_kept"] == 1.0
