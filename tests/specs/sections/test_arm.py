"""Arms: their rows, the options that reach a layer, and schedules."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationRefresh
from bln_search.specs import ArmSpec, list_planned_trial_specs
from bln_search.specs.trial import list_planned_configurations_and_estimates
from tests.specs.minimal_study import study

ALL = ["memory", "last_step", "with_mini_batch"]


def test_no_normalization_has_one_row_without_estimate_and_without_blends():
    spec = study(arms="[{method: none}, {method: bn}]", evaluation="{population: [frozen, moving], blends: [0.5]}")
    plain, other = (list_planned_trial_specs(spec)[index] for index in (0, -1))
    assert list_planned_configurations_and_estimates(plain) == ((InferenceConfiguration("----"), None),)
    assert len(list_planned_configurations_and_estimates(other)) > 4


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"method": "mbn"}, 9),
        ({"method": "mbn", "memory_sources": ALL}, 25),
        ({"method": "mbn", "memory_sources": ["memory", "last_step"]}, 16),
        ({"method": "mbn", "memory_sources": ["with_mini_batch"]}, 9),
        ({"method": "wn"}, 9),
        ({"method": "bn", "from_weights": True}, 9),
        ({"method": "bln", "from_weights": True}, 81),
    ],
    ids=str,
)
def test_an_arm_evaluates_the_sources_it_asks_for(options, count):
    assert len(ArmSpec(**options).evaluated_configurations_without_blends) == count


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"method": "bln"}, {}),
        ({"method": "ln", "axes": "layer", "affine": "unit"}, {"axes": "layer", "affine": "unit"}),
        ({"method": "bn", "unbiased": True}, {"unbiased": True}),
        ({"method": "brn"}, {"momentum": 0.99}),
        ({"method": "mbn"}, {"memory_size": 20, "memory_decay": 0.9}),
        (
            {"method": "mbn", "memory": 3, "memory_sources": ALL, "between_variance": False},
            {"memory_size": 3, "memory_decay": 0.9, "memory_sources": ALL, "between_variance": False},
        ),
    ],
    ids=str,
)
def test_options_of_a_method_reach_its_layer(options, expected):
    assert ArmSpec(**options).norm_layer_options == expected


def test_schedules_have_those_of_the_papers_as_defaults():
    (arm,) = study(arms="[{method: mbn, lambda: {0: 0.1, 0.4: 0.6, 0.6: 0.9}}]").arms
    assert arm.layer_attribute_schedules["lambda_"].value_at_progress(0.5) == 0.6
    assert ArmSpec(method="mbn").layer_attribute_schedules["lambda_"].value_at_progress(0.5) == 0.5
    schedules = ArmSpec(method="brn").layer_attribute_schedules
    assert (schedules["r_max"].value_at_progress(0), schedules["d_max"].value_at_progress(1)) == (1, 5)
    assert ArmSpec(method="bn").layer_attribute_schedules == {}


def test_the_epoch_is_selected_under_the_source_of_the_method_or_one_that_is_evaluated():
    assert str(ArmSpec(method="mbn").checkpoint_selection_configuration) == "MM--"
    arm = ArmSpec.model_validate({"method": "mbn", "memory_sources": ALL, "judged_under": "CC--"})
    assert str(arm.checkpoint_selection_configuration) == "CC--"


def test_fine_tuning_has_three_epochs_with_a_tenth_of_the_learning_rate():
    (arm,) = study(arms="[{method: bln, fine_tune: {}}]").arms
    spec = arm.fine_tune
    assert (spec.epochs, spec.learning_rate_factor, spec.refresh) == (3, 0.1, PopulationRefresh.EPOCH)
    assert spec.configuration is None


def test_only_arms_of_the_named_methods_normalize_the_output():
    arms = "[{method: bn}, {method: ln}]"
    trials = list_planned_trial_specs(study(arms=arms, model="{name: mlp, output_norm: [bn]}", seeds="[0]"))
    assert [trial.model_options["output_norm"] for trial in trials] == [True, False]
    assert [trial.model_options for trial in list_planned_trial_specs(study(arms=arms, seeds="[0]"))] == [{}, {}]


def test_each_initialization_is_a_point_of_a_space():
    space = (
        "{training.initialization: {kind: choice, "
        "values: [{statistics: none}, {statistics: bn, gain: uniform}, {statistics: ap2}]}}"
    )
    arms, model = "[{method: wn}, {method: ap2}]", "{name: mlp, placement: before}"
    trials = list_planned_trial_specs(study(arms=arms, model=model, seeds="[0]", space=space))
    starts = [(trial.arm.method, trial.training.initialization.statistics) for trial in trials]
    assert sorted(starts) == sorted((method, start) for method in ("wn", "ap2") for start in ("none", "bn", "ap2"))
    assert len({trial.key for trial in trials}) == 6
