"""The options of the LN paper's experiment on MNIST: norms on the output, and epochs evaluated on test."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Split
from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """name: study
data: {name: digits}
model: {name: %s}
arms: [{method: bn}, {method: ln}]
training: {%s}
seeds: [0]
"""


def study(model="mlp", training=""):
    return parse_study(STUDY % (model, training), source="study.yaml")


def test_only_arms_of_the_named_methods_normalize_the_output():
    trials = list_planned_trial_specs(study("mlp, output_norm: [bn]"))
    assert [trial.model_options["output_norm"] for trial in trials] == [True, False]
    assert [trial.model_options for trial in list_planned_trial_specs(study())] == [{}, {}]


def test_only_an_mlp_has_a_normalized_output():
    with pytest.raises(SpecError, match="output_norm"):
        study("lenet, output_norm: [bn]")


def test_epochs_are_evaluated_on_validation_by_default():
    assert study().training.epoch_splits == (Split.VALIDATION,)
    assert study(training="epoch_splits: [validation, test]").training.epoch_splits == (Split.VALIDATION, Split.TEST)


def test_written_defaults_leave_the_digest_of_a_study_unchanged():
    assert study(training="epoch_splits: [validation]").digest == study().digest
    assert "epoch_splits" not in study().canonical_json()


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ("epoch_splits: [test]", "needs validation"),
        ("epoch_splits: [validation, train]", "epoch_splits"),
        ("epoch_splits: [validation, validation]", "more than once"),
    ],
)
def test_epochs_are_never_compared_on_test(training, message):
    with pytest.raises(SpecError, match=message):
        study(training=training)


def test_methods_are_written_once():
    with pytest.raises(SpecError, match="more than once"):
        study("mlp, output_norm: [bn, bn]")
