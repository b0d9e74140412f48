"""The task of a study: that of its data set, and one clear error for what does not fit."""

from __future__ import annotations

import pytest

from bln_search.core.tasks import TaskName
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.specs.minimal_study import MINIMAL_STUDY, problems

REGRESSION = MINIMAL_STUDY.replace("digits", "diabetes")
TOKENS = MINIMAL_STUDY.replace("digits", "imdb_case").replace("mlp", "gru")


def test_a_study_has_the_task_of_its_data():
    expected = {
        MINIMAL_STUDY: (TaskName.CLASSIFICATION, "nats"),
        REGRESSION: (TaskName.REGRESSION, "variances of the training targets"),
        TOKENS: (TaskName.TOKEN_CLASSIFICATION, "nats"),
        MINIMAL_STUDY.replace("digits", "mnist_pair_digits"): (TaskName.MULTI_LABEL, "nats"),
        TOKENS.replace("imdb_case", "imdb_next_word"): (TaskName.LANGUAGE_MODEL, "nats"),
    }
    studies = {text: parse_study(text) for text in expected}
    assert {
        text: (study.resolved_task.name, study.loss_description.unit) for text, study in studies.items()
    } == expected


def test_naming_the_task_of_the_data_changes_only_the_digest():
    plain, named = parse_study(REGRESSION), parse_study(REGRESSION + "task: {name: regression}\n")
    assert plain.resolved_task == named.resolved_task
    assert "task" not in plain.canonical_json()
    assert plain.digest != named.digest


def test_the_loss_of_a_regression_is_part_of_a_trial():
    absolute = parse_study(REGRESSION + "task: {name: regression, loss: absolute_error}\n")
    assert absolute.loss_description.text == "mean absolute error in deviations of the training targets"
    (first, *_), (second, *_) = list_planned_trial_specs(parse_study(REGRESSION)), list_planned_trial_specs(absolute)
    assert first.key != second.key
    assert second.resolved_task.regression_loss == "absolute_error"


def test_a_network_with_an_output_for_each_token_is_asked_for():
    (trial, *_) = list_planned_trial_specs(parse_study(TOKENS))
    assert trial.model_options["per_token"] is True


@pytest.mark.parametrize("text", [REGRESSION, TOKENS, MINIMAL_STUDY.replace("digits", "mnist_pair_digits")])
def test_layers_and_probes_without_curvature_suit_every_task(text):
    study = parse_study(text + "layers: {}\nprobes: {batch_sizes: [1, 2], epochs: 1, reshuffles: 3}\n")
    assert (study.layers.folds, study.probes.reshuffles) == (2, 3)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        (MINIMAL_STUDY + "task: {name: regression}\n", "task"),
        (REGRESSION + "task: {name: classification}\n", "task"),
        (REGRESSION + "task: {name: ranking}\n", "task.name"),
        (REGRESSION + "task: {name: regression, loss: nll}\n", "task.loss"),
        (MINIMAL_STUDY + "task: {name: classification, loss: squared_error}\n", "task"),
        (REGRESSION + "task: regression\n", "task"),
        (REGRESSION + "probes: {geometry: 8}\n", "probes.geometry"),
        (TOKENS + "probes: {geometry: 8}\n", "probes.geometry"),
        (TOKENS.replace("gru", "gru, normalize: cells") + "layers: {}\n", "layers"),
        (TOKENS.replace("gru", "mlp"), "model.name"),
        (MINIMAL_STUDY + "task: {name: density}\n", "task"),
        (REGRESSION + "task: {name: regression, margin: 0.2}\n", "task.margin"),
    ],
)
def test_what_does_not_fit_is_one_problem(text, location):
    (problem,) = problems(text)
    assert f"{location}: " in problem
