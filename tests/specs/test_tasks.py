"""The task of a study: that of its data set, and one clear error for what does not fit."""

from __future__ import annotations

from bln_search.core.tasks import TaskName
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.specs.minimal_study import MINIMAL_STUDY

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


def test_the_loss_of_a_regression_is_part_of_a_trial():
    absolute = parse_study(REGRESSION + "task: {name: regression, loss: absolute_error}\n")
    assert absolute.loss_description.text == "mean absolute error in deviations of the training targets"
    (first, *_), (second, *_) = list_planned_trial_specs(parse_study(REGRESSION)), list_planned_trial_specs(absolute)
    assert first.key != second.key
    assert second.resolved_task.regression_loss == "absolute_error"


def test_a_network_with_an_output_for_each_token_is_asked_for():
    (trial, *_) = list_planned_trial_specs(parse_study(TOKENS))
    assert trial.model_options["per_token"] is True
