"""The options of a model in a study."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bln_search.specs import parse_study
from bln_search.specs.study import ModelSpec
from tests.specs.minimal_study import MINIMAL_STUDY, problems

CELLS = MINIMAL_STUDY.replace("{name: mlp}", "{name: lstm, normalize: cells, gain: 0.1}")


def test_a_recurrent_network_may_be_normalized_inside_its_cells():
    model = parse_study(CELLS).model
    assert (model.normalize, model.gain) == ("cells", 0.1)


def test_options_that_came_later_leave_the_written_form_of_other_studies_as_it_was():
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
def test_a_mistake_in_them_is_named(model, message):
    found = problems(MINIMAL_STUDY.replace("{name: mlp}", model))
    assert any(message in problem for problem in found), found


def test_the_widest_layer_is_what_limits_are_held_against():
    assert ModelSpec(name="lenet").largest_width == 0
    assert ModelSpec(name="mlp", widths=(8, 300, 20)).largest_width == 300
    assert ModelSpec(name="lstm", widths=(8,), embedding=9_000).largest_width == 9_000
    assert ModelSpec(name="lstm", dense=500, embedding=40).largest_width == 500


def test_a_gain_that_is_no_number_is_an_error():
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
def test_what_words_cannot_take_is_refused(study, message):
    found = problems(study)
    assert any(message in problem for problem in found), found


def test_a_word_for_each_layer_is_not_for_normalized_cells():
    found = problems(CELLS + "layers: {}\n")
    assert any("normalization inside cells" in one for one in found), found
