"""Codes of inference configurations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import (
    InferenceConfiguration,
    all_configurations,
    epoch_selection_configuration_of,
    mini_batch_configuration_of,
)
from bln_search.core.method import Method, MethodDescription, Statistic, StatisticSource


@pytest.mark.parametrize(("method", "count"), [("bln", 16), ("bn", 4), ("ln", 4), ("mbn", 9), ("brn", 4), ("none", 1)])
def test_each_method_lists_its_configurations_once(method, count):
    configurations = all_configurations(Method(method))
    assert len(set(configurations)) == count
    assert all(configuration.fits_method(Method(method)) for configuration in configurations)


def test_layer_normalization_and_no_normalization_have_no_batch_statistics():
    assert [method for method in Method if not method.has_batch_statistics] == [Method.LN, Method.NONE]


def test_one_statistic_of_a_pair_is_refused():
    with pytest.raises(ValueError, match="rms"):
        MethodDescription("bln_search.norms.rms:RMS", (Statistic.FEATURE_DEVIATION,))


def test_every_source_says_how_it_is_shown():
    shown = [source.description for source in StatisticSource]
    assert all(source.label and source.origin and source.colour for source in shown)
    assert all(re.fullmatch("[a-z-]+", source.css_class) for source in shown)


def test_letters_have_the_order_of_the_paper():
    sources = InferenceConfiguration("TFFT").source_by_statistic
    assert list(sources) == ["E_B", "Std_B", "E_F", "Std_F"]
    assert sources[Statistic.BATCH_MEAN] is StatisticSource.POPULATION
    assert sources[Statistic.BATCH_DEVIATION] is StatisticSource.MINI_BATCH


@given(st.text(alphabet="TFM-tf X", max_size=6))
def test_any_other_code_is_rejected(code):
    allowed = {str(configuration) for method in Method for configuration in all_configurations(method)}
    if code in allowed:
        assert str(InferenceConfiguration(code)) == code
    else:
        with pytest.raises(ValueError, match="four letters"):
            InferenceConfiguration(code)


def test_deterministic_without_mini_batch_statistics():
    assert {
        configuration.code for configuration in all_configurations(Method.BLN) if configuration.is_deterministic
    } == {
        "TTTT",
        "TTTF",
        "TTFT",
        "TTFF",
    }
    assert all(configuration.is_deterministic for configuration in all_configurations(Method.LN))


def test_restriction_keeps_the_statistics_of_the_method():
    assert str(InferenceConfiguration("TFFT").restricted_to_statistics_of(Method.BN)) == "TF--"
    assert str(InferenceConfiguration("TFFT").restricted_to_statistics_of(Method.LN)) == "--FT"


def test_memory_comes_first_for_mbn_and_is_no_population():
    configurations = all_configurations(Method.MBN)
    assert [str(configuration) for configuration in configurations[:3]] == ["MM--", "MT--", "MF--"]
    assert configurations[0].uses_mbn_memory
    assert not configurations[0].uses_population
    assert configurations[0].is_deterministic
    assert [str(epoch_selection_configuration_of(method)) for method in (Method.MBN, Method.BN)] == ["MM--", "FF--"]


@pytest.mark.parametrize("code", ["MMFF", "--MM", "MMMM", "MFTT"])
def test_only_mbn_has_a_memory(code):
    with pytest.raises(ValueError, match=r"M \(memory\) for mbn"):
        InferenceConfiguration(code)


def test_training_configuration_uses_the_mini_batch():
    assert [str(mini_batch_configuration_of(method)) for method in (Method.BLN, Method.BN, Method.LN)] == [
        "FFFF",
        "FF--",
        "--FF",
    ]
