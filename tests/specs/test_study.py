"""The options of a model in a study."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bln_search.specs import parse_study
from bln_search.specs.sections.model import ModelSpec
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
        ("{name: lstm, normalize: inside}", "must be 'layers' or 'cells'"),
        ("{name: lstm, normalize: cells, gain: 0}", "greater than 0"),
        (
            "{name: lstm, gain: 0.1}",
            "gain belongs to the normalization inside recurrent cells: it needs normalize: cells",
        ),
    ],
)
def test_invalid_model_option_is_reported(model, message):
    messages = problems(MINIMAL_STUDY.replace("{name: mlp}", model))
    assert any(message in problem for problem in messages), messages


def test_largest_width_is_that_of_the_widest_layer():
    assert ModelSpec(name="lenet").largest_width == 0
    assert ModelSpec(name="mlp", widths=(8, 300, 20)).largest_width == 300
    assert ModelSpec(name="lstm", widths=(8,), embedding=9_000).largest_width == 9_000
    assert ModelSpec(name="lstm", dense=500, embedding=40).largest_width == 500


def test_gain_must_be_a_number():
    with pytest.raises(ValidationError):
        ModelSpec(name="lstm", normalize="cells", gain=float("inf"))


WORDS = MINIMAL_STUDY.replace("{name: mlp}", "{name: lstm}")


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
    assert parse_study(head + sections).has_slot_populations == expected
