"""The options of a model in a study."""

from __future__ import annotations

import pytest

from bln_search.specs import parse_study
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.study_size import compute_study_size
from tests.specs.minimal_study import MINIMAL_STUDY

CELLS = MINIMAL_STUDY.replace("{name: mlp}", "{name: lstm, normalize: cells, gain: 0.1}")


def test_recurrent_network_may_be_normalized_in_cells():
    model = parse_study(CELLS).model
    assert (model.normalize, model.gain) == ("cells", 0.1)


def test_largest_width_is_that_of_the_widest_layer():
    assert ModelSpec(name="lenet").largest_specified_width == 0
    assert ModelSpec(name="mlp", widths=(8, 300, 20)).largest_specified_width == 300
    assert ModelSpec(name="lstm", widths=(8,), embedding=9_000).largest_specified_width == 9_000
    assert ModelSpec(name="lstm", dense=500, embedding=40).largest_specified_width == 500


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
