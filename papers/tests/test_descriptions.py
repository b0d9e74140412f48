"""The descriptions of all networks and data sets agree with what they describe."""

from __future__ import annotations

from inspect import signature

import pytest

from bln_search.core.registry import DATA_SETS, MODELS, find_data_set_task
from bln_search.data.catalog import get_catalog_entry
from bln_search.models.factory import get_model_factory

ARGUMENTS = {"input_shape", "classes", "norm", "vocabulary", "per_token"}


@pytest.mark.parametrize("name", MODELS.packages)
def test_a_network_has_the_options_of_its_description(name):
    info, parameters = MODELS.load_info(name), signature(get_model_factory(name)).parameters
    assert parameters.keys() - ARGUMENTS == info.all_options
    assert ("vocabulary" in parameters) == info.takes_token_ids
    if "normalize" in info.options:
        assert parameters["normalize"].default == info.default_norm_placement


@pytest.mark.parametrize("name", DATA_SETS.packages)
def test_the_task_of_a_data_set_is_known_without_the_package(name, monkeypatch):
    task = DATA_SETS.load_info(name).task
    monkeypatch.setattr(DATA_SETS, "plugins", {})
    assert find_data_set_task(name) == task


@pytest.mark.parametrize("name", DATA_SETS.packages)
def test_a_data_set_has_the_inputs_and_the_task_of_its_description(name):
    info, entry = DATA_SETS.load_info(name), get_catalog_entry(name)
    assert (info.task, entry.name, info.has_fixed_length) == (entry.task, name, info.text_length is not None)
    assert info.has_several_inputs == (not isinstance(entry.format.shape, tuple))
    if info.text_length is not None:
        assert entry.format.shape == (info.text_length,)
