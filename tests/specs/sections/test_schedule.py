"""Values of schedules during training, in every notation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bln_search.core.errors import SpecError
from bln_search.specs import ArmSpec, parse_study
from bln_search.specs.sections.schedule import Schedule

READ = TypeAdapter(Schedule).validate_python
STUDY = "name: s\ndata: {name: digits}\nmodel: {name: mlp}\narms:\n  - {method: %s}\n"
finite = st.floats(-10, 10)


def arm(text):
    return parse_study(STUDY % text).arms[0]


@pytest.mark.parametrize(
    ("document", "values"),
    [
        (0.5, {0: 0.5, 0.99: 0.5}),
        ({0: 0.1, 0.4: 0.5, 0.6: 0.9}, {0: 0.1, 0.399: 0.1, 0.4: 0.5, 0.6: 0.9, 1: 0.9}),
        ({"kind": "linear", "initial": 1, "final": 3}, {0: 1, 0.25: 1.5, 1: 3}),
        ({"kind": "linear", "initial": 0, "final": 5, "begin": 0.2, "end": 0.7}, {0.1: 0, 0.45: 2.5, 0.9: 5}),
        ({"kind": "cosine", "initial": 0, "final": 1}, {0: 0, 0.5: 0.5, 0.25: (1 - math.cos(math.pi / 4)) / 2, 1: 1}),
    ],
)
def test_schedule_values_over_training(document, values):
    schedule = READ(document)
    assert {progress: schedule.value_at_progress(progress) for progress in values} == pytest.approx(values)


@given(st.sampled_from(["linear", "cosine"]), finite, finite, st.floats(0, 1))
def test_ramp_stays_between_its_ends(kind, initial, final, progress):
    value = READ({"kind": kind, "initial": initial, "final": final}).value_at_progress(progress)
    assert min(initial, final) - 1e-9 <= value <= max(initial, final) + 1e-9


@given(st.dictionaries(st.floats(0, 0.99), finite, min_size=1, max_size=5))
def test_schedules_survive_serialization(steps):
    schedule = READ({0.0: 0.0, **steps})
    adapter = TypeAdapter(Schedule)
    assert adapter.validate_json(adapter.dump_json(schedule)) == schedule


def test_study_file_uses_the_key_lambda():
    assert (
        arm("mbn, lambda: {0: 0.1, 0.4: 0.5, 0.6: 0.9}").layer_attribute_schedules["lambda_"].value_at_progress(0.5)
        == 0.5
    )
    assert arm("mbn").layer_attribute_schedules["lambda_"].value_at_progress(0.7) == 0.9
    assert str(arm("mbn").checkpoint_selection_configuration) == "MM--"
    assert arm("brn").layer_attribute_schedules["r_max"].value_at_progress(0) == 1
    assert arm("brn").layer_attribute_schedules["d_max"].value_at_progress(1) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mbn, lambda: 1.5", "lambda must stay between 0 and 1, not 1.5"),
        ("mbn, lambda: {0.4: 0.5}", "the steps of a schedule start at 0"),
        ("mbn, lambda: {kind: linear, initial: 0.1}", "arms.0.lambda.final: this key is missing"),
        ("mbn, lambda: {kind: linear, initial: 0, final: 1, begin: 0.5, end: 0.5}", "a ramp ends after it begins"),
        ("mbn, lambda: {kind: stairs}", "arms.0.lambda"),
        ("mbn, lambda: .nan", "finite number"),
        ("mbn, lambda: high", "arms.0.lambda"),
        ("bn, lambda: 0.5", "lambda belongs to mbn, the arm is bn: remove it"),
        ("bn, r_max: 2", "r_max belongs to brn"),
        ("brn, r_max: 0.5", "r_max must stay at least 1"),
        ("mbn, memory: 0", "arms.0.memory: must be at least 1, not 0"),
        ("mbn, population: [memory]", "memory cannot be named"),
        ("mbn, judged_under: TTTT", "judged_under TTTT does not name the statistics of mbn: write it like MM--"),
        ("bn, judged_under: MM--", "judged_under MM-- does not name the statistics of bn"),
        ("mbn, lamda: 0.1", "did you mean `lambda`?"),
    ],
)
def test_invalid_schedule_names_the_allowed_values(text, expected):
    with pytest.raises(SpecError) as error:
        parse_study(STUDY % text)
    assert any(expected in problem and "line 5" in problem for problem in error.value.problems), error.value.problems


def test_digest_of_an_earlier_study_is_unchanged():
    """Keys that came later are not written down while they are not used."""
    assert set(ArmSpec(method="bln").model_dump(mode="json")) == {
        "method",
        "name",
        "semantics",
        "epsilon",
        "momentum",
        "judged_under",
        "population",
    }
    digest = parse_study(STUDY % "bln").digest
    assert digest == "8efd9ad4604d6312de691551e120115be2456aeb19d545996bcbeaade00f78b9"
