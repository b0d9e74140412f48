"""Populations, conditions and test loaders that do not fit together are one error before any call of the network."""

from __future__ import annotations

import pytest

import bln_search
from bln_search.core.errors import DataError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted

NAMES = [3, "", " ", "a b", "1st", "ä", "x" * 33, "@", "a@0.1"]


@pytest.mark.parametrize("name", [*NAMES, "epoch", "moving", "memory"])
def test_impossible_names_of_populations_are_one_error_without_a_call(name):
    network = Counted()
    with pytest.raises(ValueError, match=r"population|estimate"):
        bln_search.evaluate_configurations(network, {name: TRAIN}, VALIDATION)
    assert network.calls == 0


@pytest.mark.parametrize("name", [*NAMES, "mean", "worst", "regret", "batch", "configuration", "population", "verdict"])
def test_impossible_names_of_conditions_are_one_error_without_a_call(name):
    network = Counted()
    with pytest.raises(ValueError, match="condition"):
        bln_search.evaluate_configurations(network, TRAIN, {name: VALIDATION})
    assert network.calls == 0


@pytest.mark.parametrize(
    ("validation", "test", "message"),
    [
        ({}, None, "names no condition"),
        ({"clean": VALIDATION, "noise": VALIDATION}, {"clean": VALIDATION}, "a test loader for each condition"),
        ({"clean": VALIDATION}, {"clean": VALIDATION, "noise": VALIDATION}, "a test loader for each condition"),
        ({"clean": VALIDATION}, VALIDATION, "a single loader"),
        (VALIDATION, {"clean": VALIDATION}, "validation_loader has none"),
    ],
)
def test_conditions_without_their_test_loader_are_one_error_without_a_call(validation, test, message):
    network = Counted()
    with pytest.raises(ValueError, match=message):
        bln_search.evaluate_configurations(network, TRAIN, validation, test_loader=test)
    assert network.calls == 0


def test_populations_without_a_name_are_one_error_without_a_call():
    network = Counted()
    with pytest.raises(ValueError, match="names no population"):
        bln_search.evaluate_configurations(network, {}, VALIDATION)
    with pytest.raises(DataError, match="train_loader"):
        bln_search.evaluate_configurations(network, [TRAIN, TRAIN], VALIDATION)
    assert network.calls == 0
