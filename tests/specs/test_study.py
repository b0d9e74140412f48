"""The options of a model in a study."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bln_search.specs import parse_study
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.study_size import compute_study_size
from tests.specs.minimal_study import MINIMAL_STUDY, problems

CELLS = MINIMAL_STUDY.replace("{name: mlp}", "{name: lstm, normalize: cells, gain: 0.1}")


def test_recurrent_network_may_be_normalized_in_cells():
    model = parse_study(CELLS).model
    assert (model.normalize, model.gain) == ("cells", 0.1)


def test_later_options_do_not_change_other_digests():
    assert ModelSpec(name="lstm").model_dump(mode="json") == {"name": "lstm", "widths": None}
    assert "normalize" not in parse_study(MINIMAL_STUDY).canonical_json()
    assert ModelSpec(name="lstm", normalize="layers").model_dump(mode="json")["normalize"] == "layers"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{name: lstm, normalize: inside}", "must be 'layers', 'cells', 'cell_output' or 'cells_and_layers'"),
        ("{name: lstm, normalize: cells, gain: 0}", "greater than 0"),
        (
            "{name: lstm, gain: 0.1}",
            "gain belongs to the normalization inside recurrent cells: it needs normalize: cells",
        ),
        (
            "{name: lstm, longer_sequences: refuse}",
            "longer_sequences belongs to the normalization inside recurrent cells",
        ),
        ("{name: lstm, normalize: cells, longer_sequences: first}", "must be 'refuse' or 'last_time_step'"),
        ("{name: gru, normalize: cell_output}", "only an lstm has an output of its cell, not gru"),
        (
            "{name: lstm, normalize: cells_and_layers, mask_padding: true}",
            "mask_padding needs normalization inside cells",
        ),
        ("{name: lstm, mask_padding: true}", "mask_padding needs normalization inside cells"),
        ("{name: lstm, normalize: cells, mask_padding: true}", "mask_padding skips the padding of texts"),
    ],
)
def test_invalid_model_option_is_reported(model, message):
    messages = problems(MINIMAL_STUDY.replace("{name: mlp}", model))
    assert any(message in problem for problem in messages), messages


def test_largest_width_is_that_of_the_widest_layer():
    assert ModelSpec(name="lenet").largest_specified_width == 0
    assert ModelSpec(name="mlp", widths=(8, 300, 20)).largest_specified_width == 300
    assert ModelSpec(name="lstm", widths=(8,), embedding=9_000).largest_specified_width == 9_000
    assert ModelSpec(name="lstm", dense=500, embedding=40).largest_specified_width == 500


def test_gain_must_be_a_number():
    with pytest.raises(ValidationError):
        ModelSpec(name="lstm", normalize="cells", gain=float("inf"))


WORDS = MINIMAL_STUDY.replace("{name: mlp}", "{name: lstm}")
TEXTS = WORDS.replace("digits", "imdb")
IN_CELLS = TEXTS.replace("{name: lstm}", "{name: lstm, normalize: cells}").replace("bln", "bn")


def with_lengths(study, lengths):
    return f"{study}evaluation: {{lengths: {lengths}}}\n"


def test_every_length_adds_a_condition():
    study = parse_study(with_lengths(TEXTS, "[40, 160]"))
    assert study.additional_condition_names == ("length-40", "length-160")
    assert compute_study_size(study).evaluations == 3 * compute_study_size(parse_study(TEXTS)).evaluations
    assert parse_study(study.canonical_json()) == study
    assert "lengths" not in parse_study(TEXTS).canonical_json()


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (with_lengths(WORDS, "[160]"), "evaluation.lengths: digits does not consist of texts"),
        (
            with_lengths(TEXTS.replace("imdb", "imdb_next_word"), "[160]"),
            "evaluation.lengths: the labels of imdb_next_word",
        ),
        (with_lengths(TEXTS, "[160, 160]"), "160"),
        (with_lengths(TEXTS, "[0]"), "at least 1"),
        (with_lengths(IN_CELLS, "[40, 160]"), "bn inside cells have statistics for the 80 time steps of imdb"),
    ],
)
def test_lengths_that_cannot_be_evaluated_are_reported(study, message):
    messages = problems(study)
    assert any(message in problem for problem in messages), messages


@pytest.mark.parametrize(
    "study",
    [
        with_lengths(IN_CELLS, "[40]"),
        with_lengths(IN_CELLS.replace("method: bn", "method: ln"), "[160]"),
        with_lengths(
            IN_CELLS.replace("normalize: cells", "normalize: cells, longer_sequences: last_time_step"), "[160]"
        ),
        with_lengths(TEXTS, "[160]"),
    ],
)
def test_lengths_that_need_no_statistics_of_later_steps_are_accepted(study):
    assert parse_study(study).evaluation.lengths


@pytest.mark.parametrize("normalize", ["cells", "cell_output", "cells_and_layers"])
def test_layers_are_not_searched_where_cells_are_normalized(normalize):
    messages = problems(WORDS.replace("{name: lstm}", f"{{name: lstm, normalize: {normalize}}}") + "layers: {}\n")
    assert any("normalization inside cells has one configuration" in problem for problem in messages), messages


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (
            WORDS.replace("digits", "imdb") + "training:\n  augmentation: {flip: true}\n",
            "augmentation applies to images, imdb",
        ),
        (
            WORDS.replace("digits", "imdb, standardization: channel"),
            "imdb consists of token ids",
        ),
    ],
)
def test_token_data_reject_image_options(study, message):
    messages = problems(study)
    assert any(message in problem for problem in messages), messages


def test_cells_have_no_per_layer_configurations():
    messages = problems(CELLS + "layers: {}\n")
    assert any("normalization inside cells" in message for message in messages), messages


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ("evaluation: {per_slot: true}", True),
        ("training: {batch_size: 1}\nevaluation: {per_slot: true, correction: total}", False),
        ("training: {batch_size: 1}", False),
        ("", False),
    ],
)
def test_slot_populations_need_mini_batches_of_several_slots(sections, expected):
    head = "name: slots\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bln}]\nseeds: [0]\n"
    assert parse_study(head + sections).has_populations_per_slot == expected
