"""`training.precision` and `training.compile` in a study: their place in keys, and what they do not combine with."""

from __future__ import annotations

import pytest

from bln_search.core.errors import SpecError
from bln_search.specs import parse_study
from bln_search.specs.trial import list_planned_trial_specs

STUDY = """
name: x
data: {{name: {data}}}
model: {{name: {model}}}
arms: [{{method: {method}}}]
training: {{epochs: 1, {training}}}
evaluation: {{population: {population}}}
seeds: [0]
"""


def study(training="", *, method="bln", model="mlp", data="digits", population="[frozen]"):
    return parse_study(STUDY.format(training=training, method=method, model=model, data=data, population=population))


def key(training):
    (trial,) = list_planned_trial_specs(study(training))
    return trial.key


def test_defaults_leave_studies_and_keys_of_earlier_versions_as_they_are():
    assert key("precision: float32, compile: false, fused_norms: false") == key("")
    assert "precision" not in study("").canonical_json()
    assert "compile" not in study("").canonical_json()
    assert "fused_norms" not in study("").canonical_json()


def test_other_values_are_other_trials():
    keys = {key(""), key("precision: tf32"), key("precision: bf16"), key("compile: true"), key("fused_norms: true")}
    assert len(keys) == 5


@pytest.mark.parametrize(
    ("training", "options", "named"),
    [
        ("precision: bf16", {"method": "ap2"}, "bf16"),
        ("precision: bf16", {"method": "normprop"}, "bf16"),
        ("precision: bf16", {"model": "lstm", "data": "imdb"}, "lstm"),
        ("compile: true", {"model": "lstm", "data": "imdb"}, "lstm"),
        ("compile: true", {"method": "mbn"}, "mbn"),
        ("compile: true", {"method": "brn"}, "brn"),
        ("compile: true", {"method": "ap2"}, "ap2"),
        ("compile: true", {"population": "[frozen, epoch]"}, "epoch"),
        ("compile: true", {"population": "[moving]"}, "moving"),
        ("precision: float16", {}, "precision"),
        ("fused_norms: true", {"model": "lstm", "data": "imdb"}, "fused_norms"),
        ("fused_norms: true, compile: true", {}, "fused_norms"),
    ],
)
def test_what_does_not_combine_is_refused_by_name(training, options, named):
    with pytest.raises(SpecError) as error:
        study(training, **options)
    assert len(error.value.problems) == 1
    assert named in error.value.problems[0]


def test_point_of_a_space_is_checked_as_a_study():
    text = STUDY.format(training="", method="bln", model="mlp", data="digits", population="[epoch]")
    with pytest.raises(SpecError, match="epoch"):
        list_planned_trial_specs(
            parse_study(
                text + "space: {training.compile: {kind: choice, values: [true, false]}}\nsearch: {sampler: grid}\n"
            )
        )
