"""A search whose best points are trained in full: its keys, its trials, and their number."""

from __future__ import annotations

import pytest

from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.study_size import compute_study_size
from bln_search.specs.trial import (
    HORIZON_KEY,
    count_trials_upper_bound,
    make_full_trial_spec,
    make_search_or_full_trial_spec,
)

HEAD = """name: s
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}, {method: bln}]
training: {epochs: 10, optimizer: sgd}
seeds: [3, 4, 5]
"""
RATE = "{training.learning_rate: {kind: float, low: 1e-4, high: 1, log: true}}"
RATES = "{training.learning_rate: {kind: choice, values: [0.1, 0.2]}}"


def study(search, space=RATE, head=HEAD):
    return parse_study(f"{head}space: {space}\nsearch: {{{search}}}\n")


@pytest.mark.parametrize(
    ("search", "space", "expected"),
    [
        ("epochs: 2", RATE, "epochs is for a search whose best point is trained afterwards: set then_train"),
        ("trial_seeds: [1]", RATE, "trial_seeds is for a search whose best point"),
        ("then_train: true, trial_seeds: [1, 1]", RATE, "trial_seeds has the value 1 more than once"),
        ("then_train: true, objectives: [loss, parameters]", RATE, "several objectives have no best point"),
        ("then_train: true, epochs: 11", RATE, "search: epochs 11 is more than the 10 epochs of training"),
        ("then_train: true, trial_seeds: [1, 2], pruner: asha", RATE, "the study has 2 seeds"),
    ],
)
def test_invalid_search_says_why(search, space, expected):
    with pytest.raises(SpecError) as error:
        study(search, space)
    assert any(expected in problem for problem in error.value.problems), error.value.problems


def test_search_trials_have_a_horizon_and_full_trainings_have_none():
    spec = study("then_train: true, epochs: 4")
    point = {"training.learning_rate": 0.5}
    searched = make_search_or_full_trial_spec(spec, spec.arms[0], point, 3)
    full = make_full_trial_spec(spec, spec.arms[0], point, 3)
    assert (searched.horizon, searched.epochs, searched.is_search_phase_trial) == (4, 4, True)
    assert (full.horizon, full.epochs, full.is_search_phase_trial) == (None, 10, False)
    assert searched.training == full.training
    assert searched.parameters == {**point, HORIZON_KEY: 4}
    assert searched.point_label == "horizon=4 learning_rate=0.5"
    assert searched.key != full.key
    assert (searched.num_evaluations_per_split, full.num_evaluations_per_split > 0) == (0, True)


def test_horizon_is_at_most_the_epochs_of_a_point():
    spec = study("then_train: true, epochs: 8", "{training.epochs: {kind: int, low: 5, high: 20}}")
    horizons = [
        make_search_or_full_trial_spec(spec, spec.arms[0], {"training.epochs": epochs}, 3).horizon
        for epochs in (5, 8, 20)
    ]
    assert horizons == [5, 8, 8]


def test_pruner_takes_several_seeds_of_the_study_if_the_search_has_one():
    assert study("then_train: true, pruner: asha").seeds_per_point == (3,)


@pytest.mark.parametrize(
    ("search", "space", "points", "seeds"),
    [
        ("sampler: grid, then_train: true, epochs: 4", RATES, 2, 1),
        ("sampler: brent, trials: 7, then_train: true, epochs: 4", RATE, 7, 1),
        ("sampler: tpe, trials: 7, then_train: true, epochs: 4, trial_seeds: [8, 9]", RATE, 7, 2),
    ],
)
def test_planned_numbers_are_those_of_the_search_and_of_the_full_trainings(search, space, points, seeds):
    spec = study(search, space)
    assert count_trials_upper_bound(spec) == 2 * points * seeds + 2 * 3
    plan = compute_study_size(spec)
    assert plan.trials == 2 * points * seeds + 2 * 3
    assert plan.epochs == 2 * points * seeds * 4 + 2 * 3 * 10
    full = [make_full_trial_spec(spec, arm, {"training.learning_rate": 0.1}, 3) for arm in spec.arms]
    assert plan.evaluations == 3 * sum(trial.num_evaluations_per_split for trial in full)
    planned = list_planned_trial_specs(spec)
    assert len(planned) == (2 * points * seeds if "grid" in search else 0)
    assert all(trial.is_search_phase_trial for trial in planned)


def test_plan_has_the_epochs_at_the_upper_bound():
    space = "{training.epochs: {kind: int, low: 2, high: 100}}"
    assert (
        compute_study_size(study("sampler: random, trials: 3, then_train: true", space)).epochs
        == 2 * 3 * 100 + 2 * 3 * 100
    )
    assert (
        compute_study_size(study("sampler: random, trials: 3, then_train: true, epochs: 2", space)).epochs == 12 + 600
    )


def test_study_without_these_keys_keeps_its_digest_and_trial_keys():
    spec = study("trials: 3")
    assert "then_train" not in spec.canonical_json()
    assert "trial_seeds" not in spec.canonical_json()
    trial = make_search_or_full_trial_spec(spec, spec.arms[0], {"training.learning_rate": 0.5}, 3)
    assert "horizon" not in trial.canonical_json()
    assert trial == make_full_trial_spec(spec, spec.arms[0], {"training.learning_rate": 0.5}, 3)
    assert spec.seeds_per_point == spec.seeds
