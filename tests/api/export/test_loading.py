"""Loading an export verifies every file and never unpickles."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import bln_search
from bln_search.core.errors import DataError

pytestmark = pytest.mark.xdist_group("export")  # the exports are made once


def copy_with_changes(target, tmp_path, **changes):
    """A copy of an export with other entries in its configuration.json."""
    copy_folder = tmp_path / "copied"
    shutil.copytree(target, copy_folder)
    document = json.loads((copy_folder / "configuration.json").read_text())
    for key, value in changes.items():
        part, name = (document[key.split("__")[0]], key.split("__")[1]) if "__" in key else (document, key)
        part[name] = value
    (copy_folder / "configuration.json").write_text(json.dumps(document))
    return copy_folder


def test_damaged_weights_are_refused(exported, tmp_path):
    copy_folder = copy_with_changes(exported("mlp paper", "TTTT")[0], tmp_path)
    content = bytearray((copy_folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy_folder / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"model.safetensors is damaged: its SHA-256 is"):
        bln_search.load(copy_folder)
    (copy_folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match="cannot be read"):
        bln_search.load(copy_folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 9}, "of format 9, this version of bln-search reads 1, 2, 3, 4, 5, 6, 7, 8"),
        ({"format": None}, "has no format"),
        ({"standardization": "soap"}, "is damaged: standardization"),
        ({"row__configuration": "FFFF"}, "says FFFF, the layer layers.3 was written under TTTT"),
        ({"row__estimate": "frozen@0.1"}, "says TTTT with weight 0.1, the layer layers.3 was written under TTTT"),
        ({"row__estimate": "frozen@2"}, "is damaged: row.estimate"),
        ({"row__estimate": "source"}, "is damaged: row.estimate"),
        ({"model__options": {"widths": [4]}}, "does not belong to the network"),
    ],
)
def test_a_changed_configuration_is_refused(changes, message, exported, tmp_path):
    copy_folder = copy_with_changes(exported("mlp paper", "TTTT")[0], tmp_path, **changes)
    with pytest.raises(DataError, match=message):
        bln_search.load(copy_folder)


@pytest.mark.parametrize("name", ["folded", "not_folded_because", "versions", "files"])
def test_a_configuration_without_an_entry_is_refused(name, exported, tmp_path):
    copy_folder = copy_with_changes(exported("mlp paper", "TTTT")[0], tmp_path)
    document = json.loads((copy_folder / "configuration.json").read_text())
    del document[name]
    (copy_folder / "configuration.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=f"is damaged: {name}: Field required; export the network again"):
        bln_search.load(copy_folder)


def test_loading_a_folder_without_an_export_is_rejected(tmp_path):
    with pytest.raises(DataError, match="is not an export of bln-search"):
        bln_search.load(tmp_path)
    (tmp_path / "configuration.json").write_text("{")
    with pytest.raises(DataError, match="it is not JSON"):
        bln_search.load(tmp_path)


def test_loading_never_unpickles(exported, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("unpickled")

    monkeypatch.setattr(torch, "load", fail)
    assert bln_search.load(exported("mlp paper", "TTTT")[0])(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
