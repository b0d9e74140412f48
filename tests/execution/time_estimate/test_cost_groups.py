"""Trials that differ only in values without effect on the duration of a step are measured once."""

from __future__ import annotations

import pytest

from bln_search.execution.cost_group_key import cost_group_key
from bln_search.execution.time_estimate.cost_groups import group_trials_by_cost, list_expected_trials
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """
name: grouped
data: {name: digits}
model: {name: mlp, widths: [8]}
arms: [{method: bln}, {method: bn}]
training: {epochs: 2, optimizer: sgd, learning_rate: 0.1}
seeds: [0, 1]
"""


def study(space="", search=""):
    return parse_study(STUDY + (f"space: {space}\n" if space else "") + (f"search: {search}\n" if search else ""))


def groups(spec):
    return [
        (group.joined_arm_labels, group.common_point_label, len(group.trials))
        for group in group_trials_by_cost(list_expected_trials(spec))
    ]


def test_seeds_of_an_arm_are_one_group():
    assert groups(study()) == [("bln", "", 2), ("bn", "", 2)]


@pytest.mark.parametrize(
    "space",
    [
        "{training.learning_rate: {kind: choice, values: [0.1, 0.2]}}",
        "{training.weight_decay: {kind: choice, values: [0.1, 0.2]}}",
        "{training.momentum: {kind: choice, values: [0.5, 0.9]}}",
        "{training.epochs: {kind: choice, values: [1, 7]}}",
        "{arm.epsilon: {kind: choice, values: [0.001, 0.002]}}",
    ],
)
def test_values_that_do_not_change_a_step_do_not_split_groups(space):
    assert groups(study(space)) == [("bln", "", 4), ("bn", "", 4)]


@pytest.mark.parametrize(
    ("space", "label"),
    [
        ("{training.batch_size: {kind: choice, values: [5, 50]}}", "batch_size"),
        ("{training.optimizer: {kind: choice, values: [sgd, adam]}}", "optimizer"),
        ("{model.widths: {kind: choice, values: [[8], [16]]}}", "widths"),
        ("{arm.double_forward: {kind: choice, values: [true, false]}}", "double_forward"),
    ],
)
def test_values_that_change_a_step_are_groups_with_their_label(space, label):
    found = groups(study(space))
    assert [count for *_, count in found] == [2, 2, 2, 2]
    assert all(label in point for _, point, _ in found)


def test_groups_have_every_trial_once():
    spec = study("{training.batch_size: {kind: choice, values: [5, 50]}}")
    trials = [trial for group in group_trials_by_cost(list_expected_trials(spec)) for trial in group.trials]
    assert sorted(trial.key for trial in trials) == sorted(trial.key for trial in list_planned_trial_specs(spec))
    assert all(len({cost_group_key(trial) for trial in group.trials}) == 1 for group in group_trials_by_cost(trials))


@pytest.mark.parametrize(
    ("space", "search"),
    [
        ("{kind: choice, values: [0.1, 0.2, 0.3]}", "{sampler: grid, then_train: true, epochs: 1}"),
        ("{kind: float, low: 0.1, high: 0.3}", "{sampler: brent, trials: 3, then_train: true, epochs: 1}"),
    ],
)
def test_search_trials_and_full_trainings_of_an_arm_are_one_group(space, search):
    spec = study(f"{{training.learning_rate: {space}}}", search)
    for group in group_trials_by_cost(list_expected_trials(spec)):
        assert [trial.epochs for trial in group.trials] == [1, 1, 1, 2, 2]
        assert [trial.seed for trial in group.trials if not trial.is_search_phase_trial] == [0, 1]


def test_sampled_points_are_assumed_at_the_bounds_equally_often():
    sampled = study("{training.batch_size: {kind: int, low: 4, high: 40}}", "{sampler: random, trials: 5}")
    trials = list_expected_trials(sampled)
    assert len(trials) == sampled.num_sampled_points * 2
    sizes = [trial.training.batch_size for trial in trials if trial.arm.label == "bln"]
    assert (sizes.count(4), sizes.count(40)) == (6, 4)
