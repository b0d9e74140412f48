"""Search spaces: finite ones are enumerated, invalid ones rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.space import (
    Dimension,
    FloatDimension,
    Space,
    format_point,
    iter_grid_points,
    list_values_if_finite,
    num_grid_points,
)

HEAD = """name: s
data: {name: digits}
model: {name: mlp}
arms: [{method: mbn}, {method: mbn, name: twice, double_forward: true}]
training: {epochs: 3, optimizer: sgd}
seeds: [0, 1]
"""


def study(space, search=""):
    return parse_study(f"{HEAD}space: {space}\n{search}")


def test_finite_space_has_one_trial_per_point_arm_and_seed():
    parsed_study = study(
        "{training.batch_size: {kind: choice, values: [8, 16]}, arm.memory: {kind: int, low: 10, high: 40, step: 10},"
        " arm.lambda: {kind: schedule, values: [0, {0: 0.1, 0.4: 0.5, 0.6: 0.9}]}}"
    )
    trials = list_planned_trial_specs(parsed_study)
    assert len(trials) == 2 * 4 * 2 * 2 * 2
    assert len({trial.key for trial in trials}) == len(trials)
    assert {trial.training.batch_size for trial in trials} == {8, 16}
    assert {trial.arm.memory for trial in trials} == {10, 20, 30, 40}
    assert {str(trial.arm.lambda_) for trial in trials} == {"0", "0:0.1 0.4:0.5 0.6:0.9"}
    assert trials[0].point_label == "lambda=0 memory=10 batch_size=8"


def test_mapping_changes_several_keys_together():
    """As many steps for every mini-batch size: epochs go with it."""
    parsed_study = study(
        "{training: {kind: choice, values: [{batch_size: 8, epochs: 1}, {batch_size: 16, epochs: 2}]}}"
    )
    sizes = {(trial.training.batch_size, trial.training.epochs) for trial in list_planned_trial_specs(parsed_study)}
    assert sizes == {(8, 1), (16, 2)}
    assert {trial.training.optimizer for trial in list_planned_trial_specs(parsed_study)} == {"sgd"}


def test_choice_of_a_section_has_schedules_as_an_arm_has_them():
    fractions = study("{arm: {kind: choice, values: [{memory: 5, lambda: {0: 0.1, 0.4: 0.5}}, {lambda: 0.9}]}}")
    texts = study('{arm: {kind: choice, values: [{memory: 5, lambda: {"0": 0.1, "0.4": 0.5}}, {lambda: 0.9}]}}')
    trials = list_planned_trial_specs(fractions)
    assert {str(trial.arm.lambda_) for trial in trials} == {"0:0.1 0.4:0.5", "0.9"}
    assert [trial.key for trial in trials] == [trial.key for trial in list_planned_trial_specs(texts)]


def test_choice_names_each_fraction_once():
    with pytest.raises(SpecError, match=r"space\.arm\.lambda\.values"):
        study("{arm.lambda: {kind: choice, values: [{0.4: 0.1, '0.4': 0.5}]}}")


def test_sampled_space_creates_no_trials():
    parsed_study = study(
        "{training.learning_rate: {kind: float, low: 1e-4, high: 0.1, log: true}}", "search: {trials: 7}"
    )
    assert list_planned_trial_specs(parsed_study) == ()
    assert parsed_study.num_sampled_points == 14


@pytest.mark.parametrize(
    ("space", "search", "expected"),
    [
        ("{}", "", "the space is empty"),
        ("{training.batch_size: {kind: choice, values: []}}", "", "space.training.batch_size.values"),
        ("{training.batch_size: {kind: choice, values: [8, 8]}}", "", "the value 8 more than once"),
        ("{training.batch_size: {kind: choice, values: [0]}}", "", "cannot take batch_size=0"),
        ("{training.learning_rate: {kind: float, low: 1, high: 0.1}}", "", "low must be less than high"),
        ("{training.learning_rate: {kind: float, low: 0.1, high: 0.1}}", "", "low must be less than high"),
        ("{training.learning_rate: {kind: float, low: 0, high: 0.1, log: true}}", "", "starts above 0"),
        ("{training.learning_rate: {kind: float, low: .nan, high: 0.1}}", "", "finite number"),
        ("{training.learning_rate: {kind: float, low: 0, high: .inf}}", "", "finite number"),
        ("{training.learning_rate: {kind: float, low: 0.1, high: 1}}", "", "the sampler grid"),
        ("{training.learning_rate: {kind: float, low: -1, high: 1}}", "search: {}", "cannot take learning_rate=-1"),
        ("{model.widths.0: {kind: choice, values: [2]}}", "", "names a part of"),
        ("{training.momentum.x: {kind: choice, values: [2]}}", "", "names a part of"),
        ("{arm: {kind: choice, values: [{name: x}]}}", "", "mappings of its keys without `name`"),
        ("{training: {kind: choice, values: [3]}}", "", "mappings of its keys"),
        ("{arm.judged_under: {kind: choice, values: [FF--, TT--]}}", "", "reads population values during training"),
        ("{arm.memory: {kind: float, low: 5, high: 50}}", "search: {}", "must be a whole number"),
        ("{arm.r_max: {kind: choice, values: [2]}}", "", "r_max belongs to brn"),
        ("{training.speed: {kind: choice, values: [2]}}", "", "space: training.speed is not a key that varies"),
        ("{speed: {kind: choice, values: [2]}}", "", "space: speed starts with none of arm, training, model"),
        ("{arm.method: {kind: choice, values: [bn]}}", "", "arm.method is not a key that varies"),
        ("{arm.lambda: {kind: schedule, low: 0, high: 1}}", "search: {}", "give at, the rising fractions"),
        ("{arm.lambda: {kind: schedule, at: [0.1], low: 0, high: 1}}", "search: {}", "the first of them 0"),
        ("{arm.lambda: {kind: schedule, values: [0.1], low: 0}}", "", "exclude each other"),
        ("{arm.lambda: {kind: schedule, values: [0.1, {0: 0.1}, 0.1]}}", "", "a schedule twice"),
        ("{arm.lambda: {kind: schedule, at: [0], low: 0, high: 2}}", "search: {}", "lambda must stay between 0 and 1"),
        ("{arm.memory: {kind: int, low: 1, high: 5}}", "search: {sampler: cmaes}", "at least two numbers"),
        (
            "{arm.memory: {kind: int, low: 1, high: 5}, training.batch_size: {kind: choice, values: [8]}}",
            "search: {sampler: cmaes}",
            "training.batch_size is a choice",
        ),
        ("{arm.memory: {kind: int, low: 1, high: 5}}", "search: {pruner: asha}", "the study has 2 seeds"),
        (
            "{arm.memory: {kind: int, low: 1, high: 5}}",
            "search: {pruner: asha, objectives: [loss, parameters]}",
            "a pruner compares losses",
        ),
        (
            "{arm.memory: {kind: int, low: 1, high: 5}}",
            "search: {sampler: cmaes, objectives: [loss, parameters]}",
            "cmaes takes one objective",
        ),
        ("{arm.memory: {kind: int, low: 1, high: 5}}", "search: {sampler: grid, pruner: asha}", "set pruner to none"),
        ("{arm.memory: {kind: int, low: 1, high: 5}}", "search: {sampler: brent}", "arm.memory is of the kind int"),
        (
            "{training.learning_rate: {kind: choice, values: [0.1, 0.2]}}",
            "search: {sampler: brent}",
            "training.learning_rate is of the kind choice",
        ),
        (
            "{training.learning_rate: {kind: float, low: 0.1, high: 1}, arm.momentum: {kind: float, low: 0, high: 1}}",
            "search: {sampler: brent}",
            "the sampler brent searches one number, the space has 2 keys",
        ),
        (
            "{training.learning_rate: {kind: float, low: 1e-5, high: 1e-4}}",
            "search: {sampler: brent}",
            "less than 0.001 apart: widen them, or set log to true",
        ),
        (
            "{training.learning_rate: {kind: float, low: 0.1, high: 0.1001, log: true}}",
            "search: {sampler: brent}",
            "less than 0.001 apart: widen them",
        ),
        (
            "{training.learning_rate: {kind: float, low: 0.1, high: 1}}",
            "search: {sampler: brent, objectives: [loss, parameters]}",
            "brent minimizes one objective",
        ),
        (
            "{training.learning_rate: {kind: float, low: 0.1, high: 1}}",
            "search: {sampler: brent, pruner: asha}",
            "brent needs the result of every trial",
        ),
        ("{arm.memory: {kind: int, low: 1, high: 5}}", "search: {sampler: tpa}", "search.sampler"),
        ("{arm.memory: {kind: int, low: 1, high: 5}}", "search: {trials: 0}", "search.trials"),
        ("{arm.memory: {kind: int, low: 1, high: 99999}}", "", "99999 points"),
        ("{arm.memory: {kind: int, low: 1, high: 1000000000}}", "", "must be at most"),
        ("null", "search: {}", "search needs a space"),
    ],
)
def test_invalid_space_says_why(space, search, expected):
    with pytest.raises(SpecError) as error:
        study(space, search)
    assert any(expected in problem for problem in error.value.problems), error.value.problems


@pytest.mark.parametrize("log", ["true", "false"])
def test_brent_takes_one_number(log):
    space = f"{{training.learning_rate: {{kind: float, low: 1e-6, high: 1e-2, log: {log}}}}}"
    assert study(space, "search: {sampler: brent, trials: 10}").num_sampled_points == 20


@given(st.floats(1e-30, 1e30), st.floats(1e-30, 1e30))
def test_scaled_bounds_are_mapped_into_the_bounds(low, high):
    if low < high:
        for log in (False, True):
            dimension = FloatDimension(kind="float", low=low, high=high, log=log)
            mapped = [dimension.value_from_scale(bound) for bound in dimension.bounds_on_scale]
            assert mapped == pytest.approx([low, high], rel=1e-12)
            assert low <= min(mapped) <= max(mapped) <= high


def test_booleans_are_valid_choices():
    trials = list_planned_trial_specs(
        study("{arm.double_forward: {kind: choice, values: [false, true]}}".replace("twice", ""))
    )
    assert {trial.arm.double_forward for trial in trials} == {True, False}


def test_close_fractions_remain_distinct():
    space = "{arm.lambda: {kind: schedule, at: [0, 0.62345671, 0.62345673], low: 0, high: 1}}"
    dimension = study(space, "search: {trials: 3}").space["arm.lambda"]
    assert len(dimension.make_schedule_mapping([0.1, 0.2, 0.3])["steps"]) == 3


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True), min_size=1, max_size=3))
def test_grid_has_every_combination_once(values):
    validate_dimension = TypeAdapter(Dimension).validate_python
    space: Space = {
        f"d{index}": validate_dimension({"kind": "choice", "values": choices}) for index, choices in enumerate(values)
    }
    points = list(iter_grid_points(space))
    assert len(points) == num_grid_points(space) == len({format_point(point) for point in points})
    assert all(point[key] in list_values_if_finite(space[key]) for point in points for key in space)
