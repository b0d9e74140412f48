"""Trials of Optuna that are significantly worse end after a few seeds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import optuna
import pytest

from bln_search import DataError
from bln_search.integrations.optuna import SeedPruner, compare, mean_over_seeds
from tests.conftest import ROOT
from tests.integrations.optuna_studies import STORAGES, add, open_storage, score, states

GOOD, BAD = [0.1, 0.11, 0.09, 0.105, 0.095], [10.0, 100.0]


def as_objective(score, seeds=10):
    """The objective that runs all seeds of a rate, in an order of its own."""

    def objective(trial):
        rate = trial.suggest_float("rate", 0, 1000)
        order = np.random.default_rng(trial.number).permutation(seeds).tolist()
        return mean_over_seeds(trial, lambda seed: score(rate, seed), order)

    return objective


def run_rates(rates, score=score, n_jobs=1, seeds=10, **options):
    study = optuna.create_study(pruner=SeedPruner(), **options)
    for rate in rates:
        study.enqueue_trial({"rate": rate})
    study.optimize(as_objective(score, seeds), n_trials=len(rates), n_jobs=n_jobs)
    return study


@pytest.mark.parametrize("storage", STORAGES)
def test_trials_that_are_much_worse_are_pruned_after_a_few_seeds_and_left_out(storage, tmp_path):
    with open_storage(storage, tmp_path) as opened:
        study = run_rates(GOOD + BAD, storage=opened)
        assert states(study) == ["COMPLETE"] * 5 + ["PRUNED"] * 2
        assert all(3 <= len(trial.intermediate_values) <= 5 for trial in study.trials[5:])
        result = compare(study, seeds=None)
    assert sorted(row.name for row in result.rows) == sorted(f"rate={rate}" for rate in GOOD)
    assert result.left_out == {"rate=10.0": "trial 5 was pruned", "rate=100.0": "trial 6 was pruned"}
    assert result.seeds == 10


def test_a_study_that_maximizes_is_pruned_alike():
    study = run_rates(GOOD + BAD, lambda rate, seed: -score(rate, seed), direction="maximize")
    assert states(study) == states(run_rates(GOOD + BAD))


def test_the_answer_after_looks_has_the_error_rate_that_they_left():
    study = run_rates(GOOD)
    assert compare(study, seeds=None).level == 0.025
    assert "2.5 % error rate in this one" in " ".join(str(compare(study, seeds=None)).split())
    assert compare(run_rates(GOOD[:2], seeds=2), seeds=None).level == 0.05


def test_trials_in_parallel_are_pruned_alike():
    study = run_rates([*GOOD, *GOOD, *BAD, *BAD], n_jobs=2)
    assert states(study)[:10] == ["COMPLETE"] * 10
    assert "PRUNED" in states(study)[12:]


@pytest.mark.slow
def test_a_study_that_was_killed_goes_on_with_what_its_storage_has(tmp_path):
    code = f"""
import os
from tests.integrations.test_seed_pruner import *
def killed(rate, seed):
    if rate == 0.095 and seed == 3:
        os._exit(9)
    return score(rate, seed)
run_rates({GOOD}, killed, study_name="s", storage="sqlite:///{tmp_path}/study.db")
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT).returncode == 9
    with open_storage("sqlite", tmp_path) as storage:
        study = optuna.load_study(study_name="s", storage=storage, pruner=SeedPruner())
        assert states(study)[-1] == "RUNNING"
        for rate in BAD:
            study.enqueue_trial({"rate": rate})
        study.optimize(as_objective(score), n_trials=2)
        assert states(study) == ["COMPLETE"] * 4 + ["RUNNING"] + ["PRUNED"] * 2
        assert compare(study, seeds=None).left_out["rate=0.095"] == "trial 4 is running"


def test_equal_arms_deterministic_scores_and_the_last_seed_prune_nothing():
    assert states(run_rates([0.1] * 8)) == ["COMPLETE"] * 8
    assert states(run_rates(GOOD + BAD, lambda rate, seed: rate + seed)) == ["COMPLETE"] * 7
    constant = run_rates([0.1] * 5, lambda rate, seed: 1.0)
    assert states(constant) == ["COMPLETE"] * 5
    assert states(run_rates(GOOD + BAD, seeds=3)) == ["COMPLETE"] * 7


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_never_pruned_and_never_compared_with(value):
    def diverge(rate, seed):
        return value if rate in {0.5, 10.0} and seed == 2 else score(rate, seed)

    with pytest.warns(UserWarning, match=r"trial (0|6) has reported (nan|inf) at step 2: SeedPruner does not prune it"):
        study = run_rates([0.5, *GOOD, 10.0, 100.0], diverge)
    assert states(study)[7] == "PRUNED"
    assert states(study)[6] != "PRUNED"


def test_scores_of_any_size_are_pruned_without_a_warning():
    study = run_rates([*GOOD, 10.0], lambda rate, seed: 1e200 * score(rate, seed))
    assert states(study)[-1] == "PRUNED"
    run_rates([*GOOD, 10.0], lambda rate, seed: 1e-200 * score(rate, seed))
    run_rates([*GOOD, 10.0], lambda rate, seed: score(rate, seed) if rate < 1 else 1e300 * (1 + 0.1 * seed))


def test_trials_with_other_seeds_are_not_compared():
    study = run_rates(GOOD)
    study.enqueue_trial({"rate": 100.0})

    def objective(trial):
        trial.suggest_float("rate", 0, 1000)
        for seed in range(20, 26):
            trial.report(100.0 + seed**2, step=seed)
            assert not trial.should_prune()
        return 100.0

    study.optimize(objective, n_trials=1)


def test_a_trial_that_returned_early_is_left_out():
    study = run_rates(GOOD)
    add(study, 9.0, steps={0: 9.0, 1: 9.0}, rate=9.0)
    assert compare(study, seeds=None).left_out == {"rate=9.0": "trial 5 has 2 seeds"}


def test_a_mean_of_no_seeds_is_refused():
    with pytest.raises(DataError, match="trial 0 has no seeds"):
        run_rates([0.1], seeds=0)


@pytest.mark.parametrize("seeds", [[1, 1], [-1], [0.5], ["0"], [True, 1]])
def test_seeds_that_cannot_be_steps_are_refused_before_they_are_run(seeds):
    study, run = optuna.create_study(), []
    with pytest.raises(DataError, match=r"has the seed .*: seeds are different integers of at least 0"):
        study.optimize(lambda trial: mean_over_seeds(trial, lambda seed: run.append(seed) or 1.0, seeds), n_trials=1)
    assert len(run) == len(seeds) - 1


def test_seeds_may_be_integers_of_numpy():
    study = optuna.create_study()
    study.optimize(lambda trial: mean_over_seeds(trial, float, np.arange(3)), n_trials=1)
    assert study.trials[0].intermediate_values == {0: 0.0, 1: 1.0, 2: 2.0}
