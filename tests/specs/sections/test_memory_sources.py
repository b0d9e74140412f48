"""The readings of MBN's inference in an arm of a study."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bln_search.specs.sections.arm import ArmSpec

ALL = ["memory", "last_step", "with_mini_batch"]


def test_arm_evaluates_the_memory_alone_by_default():
    assert len(ArmSpec(method="mbn").evaluated_configurations_without_blends) == 9


@pytest.mark.parametrize(("sources", "count"), [(ALL, 25), (["memory", "last_step"], 16), (["with_mini_batch"], 9)])
def test_arm_evaluates_the_readings_it_names(sources, count):
    arm = ArmSpec(method="mbn", memory_sources=sources)
    assert len(arm.evaluated_configurations_without_blends) == count
    assert arm.norm_layer_options["memory_sources"] == sources


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"method": "bn", "memory_sources": ["memory"]}, "memory_sources belongs to mbn"),
        ({"method": "brn", "between_variance": False}, "between_variance belongs to mbn"),
        ({"method": "mbn", "judged_under": "LL--"}, "judged_under LL-- needs last_step"),
        ({"method": "mbn", "memory_sources": ["memory", "memory"]}, "memory_sources"),
        ({"method": "mbn", "population": ["last_step"]}, "last_step cannot be named"),
        ({"method": "mbn", "fine_tune": {"configuration": "CC--"}}, "CC-- needs with_mini_batch"),
    ],
)
def test_impossible_reading_says_what_to_do(options, expected):
    with pytest.raises(ValidationError) as error:
        ArmSpec.model_validate(options)
    assert expected in str(error.value)


def test_between_variance_reaches_the_layer():
    assert ArmSpec(method="mbn", between_variance=False).norm_layer_options["between_variance"] is False


def test_epoch_may_be_selected_under_a_reading_that_is_evaluated():
    arm = ArmSpec.model_validate({"method": "mbn", "memory_sources": ALL, "judged_under": "CC--"})
    assert str(arm.checkpoint_selection_configuration) == "CC--"
