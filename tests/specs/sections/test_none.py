"""An arm without normalization takes no option of a normalization layer."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.trial import list_planned_configurations_and_estimates

STUDY = """name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: none%s}%s]
seeds: [0]
evaluation: {population: [frozen, moving]%s}
%s"""


def study(options="", arms="", evaluation="", rest=""):
    return parse_study(STUDY % (options, arms, evaluation, rest), source="study.yaml")


def test_it_has_one_row_without_estimate_and_without_blends():
    plain, other = list_planned_trial_specs(study(arms=", {method: bn}", evaluation=", blends: [0.5]"))
    assert list_planned_configurations_and_estimates(plain) == ((InferenceConfiguration("----"), None),)
    assert len(list_planned_configurations_and_estimates(other)) > 4


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (", epsilon: 0.001", "epsilon"),
        (", semantics: reference", "semantics"),
        (", momentum: 0.9", "momentum"),
        (", population: [frozen]", "population"),
        (", double_forward: true", "double_forward"),
    ],
)
def test_an_option_without_effect_is_one_error(options, key):
    with pytest.raises(SpecError) as error:
        study(options)
    (problem,) = error.value.problems
    assert f"{key} has no effect without normalization" in problem


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (", memory: 3", "memory belongs to mbn"),
        (", judged_under: FF--", "judged_under FF-- does not name the statistics of none: write it like ----"),
    ],
)
def test_options_of_other_methods_are_an_error(options, message):
    with pytest.raises(SpecError) as error:
        study(options)
    assert message in error.value.problems[0]


def test_a_configuration_without_statistics_is_not_one_of_another_method():
    with pytest.raises(SpecError, match="judged_under ---- does not name the statistics of bn"):
        study(arms=", {method: bn, judged_under: ----}")


def test_layers_of_plain_networks_only_cannot_be_searched():
    with pytest.raises(SpecError, match="no arm has normalization layers"):
        study(rest="layers: {}")
    assert study(arms=", {method: bn}", rest="layers: {}").layers is not None


def test_an_option_in_the_space_names_the_arm_that_cannot_take_it():
    with pytest.raises(SpecError, match="arm none cannot take"):
        list_planned_trial_specs(
            study(arms=", {method: bn}", rest="space: {arm.epsilon: {kind: choice, values: [0.001, 0.0001]}}")
        )
