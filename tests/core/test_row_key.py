"""The identity of a leaderboard row."""

from __future__ import annotations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import EvaluationKey, RowKey


def row_key(code, estimate):
    key = EvaluationKey(InferenceConfiguration(code), estimate, 25, Split.TEST)
    return RowKey.of_evaluation("bln", '{"x": 1}', key)


def test_key_omits_the_split():
    code = InferenceConfiguration("TTFF")
    assert row_key("TTFF", PopulationEstimate.FROZEN) == RowKey("bln", '{"x": 1}', code, PopulationEstimate.FROZEN, 25)


def test_label_names_arm_configuration_and_estimate():
    assert row_key("TTFF", PopulationEstimate.FROZEN).arm_configuration_and_estimate_label == "bln TTFF frozen"
    assert row_key("FFFF", None).arm_configuration_and_estimate_label == "bln FFFF"
