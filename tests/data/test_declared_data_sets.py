"""Data sets of packages that need no files, are decoded one mini-batch at a time, or have a format."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.enums import Split
from bln_search.core.registry import DATA_SETS
from bln_search.core.tasks import TaskName
from bln_search.data.catalog import CatalogEntry, DataFormat, get_catalog_entry, list_data_set_modules, load_data_set
from bln_search.data.dataset import DataSet
from bln_search.data.prepared import PreparedData
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.environment import load_and_prepare_data
from bln_search.specs import DataSpec

INPUTS, NUMBERS = np.arange(24, dtype=np.uint8).reshape(4, 6), np.zeros((4, 2))
FORMAT = DataFormat((6,), 2)


def load():
    return DataSet("lab", ("a", "b"), INPUTS, NUMBERS, INPUTS, NUMBERS)


def prepare(folders, spec, device):
    inputs = torch.zeros(4, 6, device=device)
    return PreparedData(dict.fromkeys(Split, (inputs, inputs[:, :2])), (6,), 2, remarks=(str(folders[0]), spec.name))


LOADED = CatalogEntry("lab", "made", ("a", "b"), load=load, format=FORMAT)
LAZY = CatalogEntry("lab", "made", ("a", "b"), prepare=prepare)
INFO = DataSetInfo(f"{__name__}:LOADED", task="regression")
LAZY_INFO = DataSetInfo(f"{__name__}:LAZY", task="regression", is_lazy=True)


def load_scaled(scale=1):
    return DataSet("lab", ("a", "b"), INPUTS * np.uint8(scale), NUMBERS, INPUTS, NUMBERS)


class Source:
    version, paths = "1", ()

    def __init__(self, scale):
        self.decode = lambda: load_scaled(scale)


def find_scaled(folders, scale=1):
    return Source(scale)


GENERATED = CatalogEntry("lab", "made", ("a", "b"), load=load_scaled)
FOUND = CatalogEntry("lab", "found", ("a", "b"), find=find_scaled)
GENERATED_INFO = DataSetInfo(f"{__name__}:GENERATED", task="regression", own_options={"scale": int})
FOUND_INFO = DataSetInfo(f"{__name__}:FOUND", task="regression", own_options={"scale": int})


@pytest.fixture
def declare(monkeypatch):
    def _declare(name):
        point = EntryPoint("lab", f"{__name__}:{name}", "bln_search.data_set_infos")
        monkeypatch.setitem(DATA_SETS.plugins, "lab", point)

    return _declare


def test_a_data_set_without_files_has_the_declared_task(declare, tmp_path):
    declare("INFO")
    data = load_data_set("lab", tmp_path)
    assert data.task is TaskName.REGRESSION
    np.testing.assert_array_equal(data.train_inputs, INPUTS)
    assert list_data_set_modules("lab") == {__name__}


def test_random_inputs_have_the_declared_format(declare):
    declare("INFO")
    data = make_synthetic_prepared_data(DataSpec(name="lab"), 5)
    assert (data.input_shape, data.num_outputs, data.task) == ((6,), 2, TaskName.REGRESSION)
    assert [tuple(values.shape) for values in data.splits[Split.TRAIN]] == [(5, 6), (5, 2)]


def test_a_lazy_data_set_prepares_itself(declare):
    declare("LAZY_INFO")
    assert get_catalog_entry("lab").prepare is prepare
    data = load_and_prepare_data(DataSpec(name="lab"), Path("folder"), Path("cache"), "cpu")
    assert data.remarks == ("folder/lab", "lab")


@pytest.mark.parametrize("name", ["GENERATED_INFO", "FOUND_INFO"])
def test_own_options_of_a_data_set_are_keys_of_data_and_reach_its_code(declare, tmp_path, name):
    declare(name)
    for scale in (3, 2):
        spec = DataSpec.model_validate({"name": "lab", "scale": scale})
        data = load_data_set("lab", tmp_path, tmp_path / "cache", spec.own_options)
        np.testing.assert_array_equal(data.train_inputs, INPUTS * scale)
        assert spec.digest != DataSpec(name="lab").digest
    with pytest.raises(ValidationError, match="scael"):
        DataSpec.model_validate({"name": "lab", "scael": 3})
    with pytest.raises(ValidationError, match="fractoin"):
        DataSpec.model_validate({"name": "digits", "fractoin": 0.5})
