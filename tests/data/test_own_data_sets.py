"""A data set of an installed package that is wrong gets one error, with its right cause: split, key and remedy."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from bln_search.core import registry
from bln_search.core.enums import Split
from bln_search.core.errors import (
    BlnSearchError,
    DataError,
    DataReadError,
    DataUnavailableOnMachineError,
    StorageFullError,
)
from bln_search.data import load_data_set
from bln_search.data.prepared import prepare_data_set
from bln_search.data.splits import split_training_and_validation_indices
from bln_search.specs.sections.data import DataSpec

MODULE = """
import numpy as np
from bln_search.data.catalog import CatalogEntry
from bln_search.data.dataset import DataSet

class Source:
    paths, version = (), "1"

    def __init__(self, folders):
        self.path = folders[0] / "data.npz"

    def verify(self):
        return ()

    def decode(self):
        {decode}

ENTRY = CatalogEntry("own_wrong", "for tests", ("no", "yes"), find=Source)
"""
FROM_ARRAYS = """
        with np.load(self.path, allow_pickle=False) as file:
            return DataSet.from_arrays("own_wrong", ("no", "yes"), file)"""
FROM_KEYWORDS = """
        with np.load(self.path, allow_pickle=False) as file:
            return DataSet("own_wrong", ("no", "yes"), **{name: file[name] for name in file.files})"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Install a package whose `decode` has this code, write its file, and load its data set."""

    def _load(decode=FROM_ARRAYS, **changed):
        facts = tmp_path / "own_wrong-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: own-wrong\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("[bln_search.data_sets]\nown_wrong = own_wrong:ENTRY\n")
        (tmp_path / "own_wrong.py").write_text(MODULE.replace("{decode}", decode))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "own_wrong", raising=False)
        vars(registry.DATA_SETS).pop("plugins", None)
        arrays = {**right_arrays(), **changed}
        (tmp_path / "data" / "own_wrong").mkdir(parents=True)
        file = tmp_path / "data" / "own_wrong" / "data.npz"
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
        return load_data_set("own_wrong", tmp_path / "data", tmp_path / "cache")

    yield _load
    vars(registry.DATA_SETS).pop("plugins", None)
    sys.modules.pop("own_wrong", None)


def right_arrays():
    inputs = np.arange(200 * 6, dtype=np.uint8).reshape(200, 6)
    labels = np.arange(200) % 2
    return {"train_inputs": inputs, "train_labels": labels, "test_inputs": inputs[:50], "test_labels": labels[:50]}


@pytest.mark.parametrize("decode", [FROM_ARRAYS, FROM_KEYWORDS])
def test_right_arrays_are_loaded(load, decode):
    data = load(decode)
    assert all((getattr(data, name) == array).all() for name, array in right_arrays().items())


LABELS = right_arrays()["train_labels"]
INPUTS = right_arrays()["train_inputs"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"train_labels": np.array(["no", "yes"] * 100)}, ["train_labels", "np.unique"]),
        ({"train_labels": LABELS[:199]}, ["train_labels", "200 inputs need 200 labels"]),
        ({"test_labels": LABELS[:49]}, ["test_labels", "50 inputs need 50 labels"]),
        ({"train_inputs": INPUTS.T.copy()}, ["train_labels", "np.moveaxis(inputs, 1, 0)"]),
        ({"train_inputs": np.zeros((3, 8, 200), np.uint8)}, ["train_labels", "np.moveaxis(inputs, 2, 0)"]),
        ({"train_labels": LABELS.astype(np.int32)}, ["train_labels", "astype('int64')"]),
        ({"train_labels": LABELS[:, None]}, ["train_labels", "reshape"]),
        ({"train_labels": LABELS + 1}, ["train_labels", "from 1 to 2"]),
        ({"test_inputs": INPUTS[:50].astype(np.float32)}, ["test_inputs", "same type"]),
        ({"test_inputs": INPUTS[:50, :5]}, ["test_inputs", "6"]),
        ({"train_inputs": INPUTS.astype(object)}, ["train_inputs", "np.stack"]),
        ({"test_labels": LABELS[:50].astype(object)}, ["test_labels", "Python objects"]),
        ({"test_labels": None}, ["no test_labels"]),
        ({"test_inputs": None, "test_images": INPUTS}, ["no test_inputs", "also test_images"]),
        ({"mean": np.zeros(3)}, ["also mean"]),
        ({"train_inputs": np.full((200, 6), np.nan)}, ["train_inputs", "NaN"]),
    ],
)
def test_wrong_arrays_have_one_cause_and_its_remedy(load, changed, named):
    with pytest.raises(DataError) as caught:
        load(**changed)
    message = str(caught.value)
    assert all(word in message for word in ("own_wrong", *named)), message
    assert message.count("use ") <= 1


@pytest.mark.parametrize(
    ("decode", "changed", "named"),
    [
        (FROM_KEYWORDS, {"test_labels": None}, "test_labels"),
        (FROM_KEYWORDS, {"mean": np.zeros(3)}, "mean"),
        (FROM_KEYWORDS, {"train_inputs": INPUTS.astype(object)}, "Python objects"),
        ("return {'train_inputs': 1}", {}, "not a DataSet"),
        ("return None", {}, "NoneType"),
        ("return {}['key']", {}, "KeyError"),
        ("return 1 / 0", {}, "ZeroDivisionError"),
    ],
)
def test_errors_of_decode_name_the_data_set_and_the_error(load, decode, changed, named):
    with pytest.raises(DataError) as caught:
        load(decode, **changed)
    assert "own_wrong" in str(caught.value)
    assert named in str(caught.value)


def test_a_file_that_is_missing_is_a_fault_of_the_machine(load):
    with pytest.raises(DataUnavailableOnMachineError, match=r"missing\.npz") as error:
        load("return np.load(self.path.with_name('missing.npz'))")
    assert not isinstance(error.value, DataReadError)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ESTALE, DataReadError),
        (errno.EIO, DataReadError),
        (errno.EMFILE, DataReadError),
        (errno.EACCES, DataReadError),
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
    ],
)
def test_an_error_of_the_system_is_a_fault_of_the_machine(load, number, error):
    with pytest.raises(error, match="own_wrong") as caught:
        load(f"raise OSError({number}, {os.strerror(number)!r})")
    assert os.strerror(number) in str(caught.value)


@pytest.mark.parametrize("content", ["gzip.BadGzipFile('no gzip')", "OSError('no array')", "EOFError('short')"])
def test_damaged_content_is_no_fault_of_the_machine(load, content):
    with pytest.raises(DataError, match="own_wrong") as caught:
        load(f"import gzip; raise {content}")
    assert not isinstance(caught.value, DataUnavailableOnMachineError)


@pytest.mark.parametrize(
    ("names", "standardization"),
    [(("train_inputs", "test_inputs"), "pixel"), (("train_inputs",), "channel"), (("test_inputs",), "none")],
)
def test_values_beyond_float32_are_an_error_of_ours_and_no_warning(load, names, standardization):
    inputs = {"train_inputs": INPUTS.astype(np.float64), "test_inputs": INPUTS[:50].astype(np.float64)}
    data = load(**{**inputs, **{name: inputs[name] * 1e300 for name in names}})
    with pytest.raises(BlnSearchError, match="overflow"):
        prepare_data_set(data, DataSpec(name="own_wrong", standardization=standardization))


def remarks_of(data, **spec):
    return prepare_data_set(data, DataSpec(name="own_wrong", **spec)).remarks


def test_classes_without_a_training_example_are_said(load):
    data = load(train_labels=np.zeros(200, np.int64))
    assert [word in remarks_of(data)[0] for word in ("yes", str(Split.TEST))] == [True, True]
    assert len(remarks_of(data)) == 1


def test_classes_that_only_validation_has_are_said(load):
    data = load()
    _, validation = split_training_and_validation_indices(
        data.train_labels, DataSpec(name="own_wrong", stratified=False)
    )
    only_validation = np.isin(np.arange(200), validation).astype(np.int64)
    (remark,) = remarks_of(
        replace(data, train_labels=only_validation, test_labels=np.zeros(50, np.int64)), stratified=False
    )
    assert [word in remark for word in ("yes", str(Split.VALIDATION))] == [True, True]


def test_complete_classes_have_no_remark_also_from_the_cache(load, tmp_path):
    data = load()
    assert remarks_of(data) == remarks_of(load_data_set("own_wrong", tmp_path / "data", tmp_path / "cache")) == ()
