"""The options `axes` and `affine` of an arm."""

from __future__ import annotations

import pytest

from bln_search.core.enums import AffineSharing, NormalizedAxes
from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: ln}, {method: ln, name: other%s}]
seeds: [0]
"""


def study(options):
    return parse_study(STUDY % options, source="study.yaml")


def test_arms_with_other_axes_are_other_trials():
    first, second = list_planned_trial_specs(study(", axes: layer, affine: unit"))
    assert first.key != second.key
    assert (second.arm.axes, second.arm.affine) == (NormalizedAxes.LAYER, AffineSharing.UNIT)
    assert second.arm.norm_layer_options == {"axes": "layer", "affine": "unit"}
    assert first.arm.norm_layer_options == {}


def test_written_defaults_leave_the_digest_of_a_study_unchanged():
    assert study(", axes: position, affine: channel").digest == study("").digest
    assert study(", axes: layer").digest != study("").digest
    assert "axes" not in study("").canonical_json()


@pytest.mark.parametrize("method", ["bn", "mbn", "brn", "none"])
@pytest.mark.parametrize("option", ["axes: layer", "affine: unit"])
def test_methods_without_feature_statistics_have_no_axes(method, option):
    with pytest.raises(SpecError) as error:
        study(f", {option}".replace("other", "") + "}, {method: " + method + f", name: third, {option}")
    (problem,) = error.value.problems
    assert f"{option.split(':')[0]} belongs to ln and bln, the arm is {method}" in problem


@pytest.mark.parametrize("option", ["axes: layer", "affine: unit"])
def test_the_reference_has_its_own_axes(option):
    with pytest.raises(SpecError, match="belongs to the semantics paper"):
        study(f", semantics: reference, {option}")


def test_two_arms_of_one_method_need_names():
    with pytest.raises(SpecError):
        parse_study((STUDY % ", axes: layer").replace(", name: other", ""), source="study.yaml")
