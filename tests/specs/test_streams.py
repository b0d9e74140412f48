"""Streams and arms of adaptation in a study: what a trial gets of them, and what they change in digests."""

from __future__ import annotations

from bln_search.specs import list_planned_trial_specs
from bln_search.specs.trial import (
    TrialSpec,
    list_arms_of_adaptation,
    make_full_trial_spec,
    make_search_or_full_trial_spec,
)
from tests.specs.minimal_study import study


def labels(spec):
    return [[arm.display_label for arm in list_arms_of_adaptation(trial)] for trial in list_planned_trial_specs(spec)]


def test_streams_without_arms_of_adaptation_compare_population_and_mini_batch():
    assert labels(study(stream="{}", seeds="[0]")) == [["none T", "none F"]]


def test_a_study_without_streams_has_the_trials_of_earlier_versions():
    trial = list_planned_trial_specs(study())[0]
    assert trial.adaptation == ()
    assert not {"stream", "adaptation"} & trial.model_dump().keys()


def test_a_trial_is_another_one_with_another_stream_or_method():
    specs = [
        study(),
        study(stream="{}"),
        study(stream="{orders: 4}"),
        study(stream="{}", adaptation="[tent]"),
        study(stream="{}", adaptation="[{name: tent, learning_rate: 0.01}]"),
    ]
    assert len({list_planned_trial_specs(spec)[0].key for spec in specs}) == len(specs)


def test_a_trial_keeps_the_options_of_its_arms_in_json():
    spec = study(stream="{order: {blocks: 5}}", adaptation="[{name: tent, optimizer: sgd, label: slow}]")
    trial = list_planned_trial_specs(spec)[0]
    again = TrialSpec.model_validate_json(trial.model_dump_json())
    assert again == trial
    assert again.adaptation[0].own_options == {"optimizer": "sgd"}


def test_a_network_without_normalization_runs_each_method_that_changes_outputs_once():
    arms = "[{method: bn}, {method: none}]"
    spec = study(arms=arms, seeds="[0]", stream="{}", adaptation="[{name: none, configuration: F}, none, tent]")
    assert labels(spec) == [["none F", "none T", "tent F"], ["none F"]]


def test_trials_of_a_search_phase_have_no_streams():
    spec = study(
        stream="{}",
        space="{training.learning_rate: {kind: choice, values: [0.1, 0.2]}}",
        search="{sampler: tpe, trials: 2, then_train: true}",
    )
    point = {"training.learning_rate": 0.1}
    assert make_search_or_full_trial_spec(spec, spec.arms[0], point, 0).stream is None
    assert make_full_trial_spec(spec, spec.arms[0], point, 0).stream == spec.stream
