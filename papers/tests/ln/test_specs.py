"""Studies of these networks: their task is that of the data set, and what does not fit is one problem."""

from __future__ import annotations

import pytest

from bln_search.core.tasks import TaskName
from bln_search.specs import parse_study
from tests.specs.minimal_study import MINIMAL_STUDY, problems

CLOZE = MINIMAL_STUDY.replace("digits", "imdb_cloze").replace("mlp", "attentive_reader")
DENSITY = MINIMAL_STUDY.replace("digits", "mnist_binarized, standardization: none").replace("mlp", "draw")
HANDWRITING = MINIMAL_STUDY.replace("digits", "mnist_pen_tracks, standardization: none").replace("mlp", "handwriting")
RETRIEVAL = MINIMAL_STUDY.replace("digits", "mnist_pair_captions").replace("mlp", "order_embeddings")
TOKENS = MINIMAL_STUDY.replace("digits", "imdb_case").replace("mlp", "gru")


@pytest.mark.parametrize(
    ("text", "task", "unit"),
    [
        (DENSITY, TaskName.DENSITY, "nats"),
        (HANDWRITING, TaskName.DENSITY, "nats"),
        (RETRIEVAL, "retrieval", ""),
    ],
)
def test_a_study_has_the_task_of_its_data(text, task, unit):
    study = parse_study(text)
    assert (study.resolved_task.name, study.loss_description.unit) == (task, unit)


def test_losses_that_compare_examples_have_no_per_layer_search():
    text = RETRIEVAL.replace("order_embeddings", "gru")
    added = set(problems(text + "layers: {}\n")) - set(problems(text))
    (problem,) = added
    assert "layers: " in problem


@pytest.mark.parametrize(
    ("text", "location"),
    [
        (DENSITY + "layers: {}\n", "layers"),
        (DENSITY.replace("draw", "mlp"), "model.name"),
        (DENSITY.replace("standardization: none", "standardization: channel"), "data.standardization"),
        (MINIMAL_STUDY.replace("mlp", "draw"), "model.name"),
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
        (RETRIEVAL + "layers: {}\n", "layers"),
        (RETRIEVAL + "probes: {geometry: 8}\n", "probes.geometry"),
        (RETRIEVAL + "evaluation: {conditions: [{corruption: fog, severity: 3}]}\n", "evaluation.conditions"),
    ],
)
def test_what_does_not_fit_is_one_problem(text, location):
    (problem,) = problems(text)
    assert f"{location}: " in problem
