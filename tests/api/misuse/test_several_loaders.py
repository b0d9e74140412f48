"""Populations, conditions and test loaders that do not fit together are one error before any call of the network."""

from __future__ import annotations

import pytest

import bln_search
from bln_search.core.errors import DataError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted, batches
from tests.api.own_network import make_network

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


@pytest.mark.parametrize("call", [bln_search.evaluate_configurations, bln_search.search_layers])
def test_validation_data_as_test_data_are_one_warning(call):
    with pytest.warns(UserWarning, match="validation_loader and test_loader are the same object") as warned:
        call(make_network().eval(), TRAIN, VALIDATION, test_loader=VALIDATION)
    assert len(warned) == 1


def test_validation_data_of_a_condition_as_its_test_data_are_one_warning():
    other = batches(40, seed=1)
    with pytest.warns(UserWarning, match=r"validation_loader\['b'\] and test_loader\['b'\]") as warned:
        bln_search.evaluate_configurations(
            make_network().eval(), TRAIN, {"a": VALIDATION, "b": other}, test_loader={"a": batches(30), "b": other}
        )
    assert len(warned) == 1
