"""The task of a study: that of its data set, and one clear error for what does not fit."""

from __future__ import annotations

import pytest

from bln_search.core.tasks import TaskName
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.specs.minimal_study import MINIMAL_STUDY, problems

REGRESSION = MINIMAL_STUDY.replace("digits", "diabetes")
CLOZE = MINIMAL_STUDY.replace("digits", "imdb_cloze").replace("mlp", "attentive_reader")
DENSITY = MINIMAL_STUDY.replace("digits", "mnist_binarized, standardization: none").replace("mlp", "draw")
HANDWRITING = MINIMAL_STUDY.replace("digits", "mnist_pen_tracks, standardization: none").replace("mlp", "handwriting")
RETRIEVAL = MINIMAL_STUDY.replace("digits", "mnist_pair_captions").replace("mlp", "order_embeddings")
TOKENS = MINIMAL_STUDY.replace("digits", "imdb_case").replace("mlp", "gru")


def test_a_study_has_the_task_of_its_data():
    expected = {
        MINIMAL_STUDY: (TaskName.CLASSIFICATION, "nats"),
        REGRESSION: (TaskName.REGRESSION, "variances of the training targets"),
        TOKENS: (TaskName.TOKEN_CLASSIFICATION, "nats"),
        MINIMAL_STUDY.replace("digits", "mnist_pair_digits"): (TaskName.MULTI_LABEL, "nats"),
        TOKENS.replace("imdb_case", "imdb_next_word"): (TaskName.LANGUAGE_MODEL, "nats"),
        DENSITY: (TaskName.DENSITY, "nats"),
        HANDWRITING: (TaskName.DENSITY, "nats"),
        RETRIEVAL: (TaskName.RETRIEVAL, ""),
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


def test_losses_that_compare_examples_have_no_per_layer_search():
    text = RETRIEVAL.replace("order_embeddings", "gru")
    added = set(problems(text + "layers: {}\n")) - set(problems(text))
    (problem,) = added
    assert "layers: " in problem


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
        (DENSITY + "layers: {}\n", "layers"),
        (TOKENS.replace("gru", "mlp"), "model.name"),
        (DENSITY.replace("draw", "mlp"), "model.name"),
        (DENSITY.replace("standardization: none", "standardization: channel"), "data.standardization"),
        (MINIMAL_STUDY.replace("mlp", "draw"), "model.name"),
        (MINIMAL_STUDY + "task: {name: density}\n", "task"),
        (DENSITY.replace("name: draw", "name: draw, normalize: layers"), "model"),
        (DENSITY.replace("name: draw", "name: draw, embedding: 3"), "model.name"),
        (DENSITY.replace("name: draw", "name: handwriting"), "model.name"),
        (HANDWRITING.replace("name: handwriting", "name: draw"), "model.name"),
        (HANDWRITING.replace("standardization: none", "standardization: channel"), "data.standardization"),
        (HANDWRITING.replace("name: handwriting", "name: handwriting, mixtures: 0"), "model.mixtures"),
        (HANDWRITING.replace("name: handwriting", "name: handwriting, normalize: cells"), "model.name"),
        (TOKENS.replace("gru", "attentive_reader"), "model.name"),
        (TOKENS.replace("imdb_case", "imdb_sentences"), "model.name"),
        (TOKENS.replace("gru", "skip_thoughts"), "model.name"),
        (CLOZE.replace("reader", "reader, normalize: cells_and_layers"), "model"),
        (CLOZE + "evaluation: {lengths: [40]}\n", "evaluation.lengths"),
        (RETRIEVAL.replace("order_embeddings", "gru"), "model.name"),
        (RETRIEVAL.replace("mnist_pair_captions", "imdb"), "model.name"),
        (RETRIEVAL.replace("mnist_pair_captions", "digits"), "model.name"),
        (RETRIEVAL + "task: {name: retrieval, margin: 0}\n", "task.margin"),
        (RETRIEVAL + "task: {name: retrieval, similarity: dot}\n", "task.similarity"),
        (REGRESSION + "task: {name: regression, margin: 0.2}\n", "task"),
        (RETRIEVAL + "layers: {}\n", "layers"),
        (RETRIEVAL + "probes: {geometry: 8}\n", "probes.geometry"),
        (RETRIEVAL + "evaluation: {conditions: [{corruption: fog, severity: 3}]}\n", "evaluation.conditions"),
    ],
)
def test_what_does_not_fit_is_one_problem(text, location):
    (problem,) = problems(text)
    assert f"{location}: " in problem
