"""An export is written completely or not at all."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import bln_search
from bln_search.api import export_trained_row
from bln_search.api.export import files, runtimes, study_export
from bln_search.api.export import writing as export_writing
from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import DataError, ExportError, MissingPackageError, StorageFullError
from bln_search.data import DataSet
from bln_search.norms.network.layers import get_norms_by_name
from tests.api.trained import row_of, train

pytestmark = pytest.mark.xdist_group("export")  # the exports are made once


def test_network_on_token_ids_is_not_exported(tmp_path):
    draw = np.random.default_rng(0)
    marks = {f"{split}_inputs": draw.integers(0, 9, (300, 5)).astype(np.uint16) for split in ("train", "test")}
    labels = {f"{split}_labels": np.arange(300) % 2 for split in ("train", "test")}
    token_data = DataSet("words", ("no", "yes"), **marks, **labels, vocabulary=9)
    model = "{name: lstm, widths: [4], embedding: 3, dense: 4}"
    row, _ = row_of(train(tmp_path / "checkpoints", model, "{method: bln}", data=token_data), "FFFF")
    with pytest.raises(ExportError, match="words consists of token ids"):
        export_trained_row(row, FolderStore(tmp_path / "checkpoints"), token_data, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_the_same_row_has_the_same_weights_byte_for_byte(exported, networks, tmp_path):
    target, _, data = exported("mlp paper", "TTTT")
    checkpoints, trained, _ = networks("mlp paper")
    export_trained_row(row_of(trained, "TTTT")[0], checkpoints, data, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (target / "model.safetensors").read_bytes()


def interrupted(*_):
    raise KeyboardInterrupt


def full(*_):
    raise OSError(28, "No space left on device")


def different(*_):
    return lambda x: torch.zeros(len(x), 10)


@pytest.mark.parametrize(
    ("name", "replacement", "error", "message"),
    [
        pytest.param(
            "load_onnx_program",
            different,
            ExportError,
            r"network \(onnxruntime by [\d.]+ at",
            marks=pytest.mark.slow,
        ),
        ("write_torch_and_onnx_programs", interrupted, KeyboardInterrupt, None),
        ("render_study_model_card", full, StorageFullError, "no disk space left"),
    ],
)
@pytest.mark.parametrize("before", [pytest.param("absent", marks=pytest.mark.slow), "an export"])
def test_failed_export_changes_no_file(
    name, replacement, error, message, before, exported, networks, tmp_path, monkeypatch
):
    target = tmp_path / "out"
    if before != "absent":
        shutil.copytree(exported("mlp paper", "TTTT")[0], target)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    checkpoints, trained, data = networks("mlp paper")
    monkeypatch.setattr(study_export if name == "render_study_model_card" else export_writing, name, replacement)
    with pytest.raises(error, match=message):
        export_trained_row(row_of(trained, "FFFF")[0], checkpoints, data, target, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
    assert [path.name for path in tmp_path.iterdir()] == ([] if before == "absent" else ["out"])


@pytest.mark.slow
def test_only_an_export_is_replaced_and_only_with_overwrite(exported, networks, tmp_path):
    checkpoints, trained, data = networks("mlp paper")
    row, target = row_of(trained, "FFFF")[0], tmp_path / "out"
    shutil.copytree(exported("mlp paper", "TTTT")[0], target)
    with pytest.raises(ExportError, match="--overwrite"):
        export_trained_row(row, checkpoints, data, target)
    export_trained_row(row, checkpoints, data, target, overwrite=True)
    assert str(get_norms_by_name(bln_search.load(target).network)["layers.3"].configuration) == "FFFF"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "notes.txt").write_text("mine")
    for path in (tmp_path / "own", tmp_path / "own" / "notes.txt"):
        with pytest.raises(ExportError, match=r"something other than an export|is not a folder"):
            files.check_export_target_replaceable(path, overwrite=True)


def test_a_damaged_checkpoint_is_not_exported(tmp_path, networks):
    _, trained, data = networks("mlp paper")
    row, _ = row_of(trained, "FFFF")
    (tmp_path / row.checkpoint.file).write_bytes(b"spoilt")
    with pytest.raises(DataError, match="is damaged: its SHA-256 is"):
        export_trained_row(row, FolderStore(tmp_path), data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_package_names_its_extra_before_writing(networks, tmp_path, monkeypatch):
    checkpoints, trained, data = networks("mlp paper")
    monkeypatch.setattr(runtimes, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(MissingPackageError, match=r"onnxscript is not installed.*bln-search\[export\]"):
        export_trained_row(row_of(trained, "FFFF")[0], checkpoints, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
