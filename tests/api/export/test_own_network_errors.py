"""What cannot be exported or loaded is one clear error, and nothing is written or changed."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.api.export import runtimes
from bln_search.api.export import writing as export_writing
from bln_search.core.errors import DataError, ExportError, MissingPackageError, ModelError, StorageFullError
from tests.api.export.own_networks import INPUTS, TOKENS, mixed, pair

WITHOUT_ONNX = ("safetensors", "torch_export")


def export(network, folder, **options):
    return bln_search.export(network, folder, **{"example_inputs": INPUTS, "formats": ["safetensors"], **options})


@pytest.mark.parametrize(
    ("network", "options", "error", "message"),
    [
        (mixed, {"formats": ["onxx"]}, ValueError, "safetensors, torch_export, onnx"),
        (mixed, {"formats": []}, ValueError, "formats is empty"),
        (mixed, {"formats": "onnx"}, TypeError, "formats is a list"),
        (mixed, {"example_inputs": np.zeros((2, 1, 6, 6))}, DataError, "has the type ndarray"),
        (mixed, {"example_inputs": ()}, DataError, "example_inputs is empty"),
        (mixed, {"example_inputs": INPUTS[:0]}, DataError, "no example in inputs"),
        (mixed, {"example_inputs": torch.tensor(1.0)}, DataError, "no example in inputs"),
        (pair, {"example_inputs": (TOKENS["tokens"], None)}, DataError, "a NoneType as scale"),
        (pair, {"example_inputs": {**TOKENS, "scale": torch.ones(3, 1)}}, DataError, "tokens 4, scale 3"),
        (mixed, {"example_inputs": torch.zeros(2, 3, 6, 6)}, ExportError, r"in the layer first \(Conv2d\)"),
        (
            lambda: nn.Sequential(nn.Linear(4, 4), bln_search.BLN(4)),
            {"example_inputs": torch.randn(4)},
            ExportError,
            r"inputs\[:10\]",
        ),
        (mixed, {"configuration": "TTT"}, ModelError, "not an inference configuration"),
        (lambda: nn.Linear(2, 2), {}, ModelError, r'convert\(model, method="same"\)'),
        (lambda: "network", {}, ModelError, "not an nn.Module"),
        (lambda: bln_search.BLN(6), {"configuration": "TTTT"}, ModelError, "population"),
    ],
)
def test_wrong_arguments_are_rejected(network, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        export(network(), tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class FixedSize(nn.Module):
    def forward(self, x):
        return x.view(6, -1)


class Wrapped(nn.Module):
    def forward(self, x):
        return {"logits": x, "loss": 0.5}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Branch, r"in the layer 2\.0 \(Branch\): "),
        (FixedSize, r"mini-batch of 1 of the example inputs in the layer 2\.0 \(FixedSize\)"),
        (Wrapped, "the network returns a float as loss: wrap it"),
    ],
)
def test_module_that_cannot_be_exported_is_named(part, message, tmp_path):
    network = nn.Sequential(nn.Linear(4, 4), bln_search.BLN(4), nn.Sequential(part()))
    with pytest.raises(ExportError, match=message):
        export(network, tmp_path / "out", example_inputs=torch.randn(6, 4), formats=WITHOUT_ONNX)
    assert not list(tmp_path.iterdir())


def different(*_):
    return lambda x: torch.zeros(len(x), 3)


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("name", "replacement", "error", "message"),
    [
        (
            "load_torch_program",
            different,
            ExportError,
            r"network \(torch.export by [\d.]+ at mini-batches of 1,",
        ),
        ("save", full, StorageFullError, "no disk space left"),
    ],
)
@pytest.mark.parametrize("before", ["absent", "an export"])
def test_failed_export_changes_no_file(name, replacement, error, message, before, tmp_path, monkeypatch):
    if before != "absent":
        export(mixed(), tmp_path / "out")
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(export_writing, name, replacement)
    with pytest.raises(error, match=message):
        export(mixed(), tmp_path / "out", formats=WITHOUT_ONNX, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
    assert [path.name for path in tmp_path.iterdir()] == ([] if before == "absent" else ["out"])


def test_only_an_export_is_replaced_and_only_with_overwrite(tmp_path):
    export(mixed(), tmp_path / "out")
    with pytest.raises(ExportError, match="overwrite"):
        export(mixed(6), tmp_path / "out")
    export(mixed(6), tmp_path / "out", overwrite=True)
    bln_search.load(tmp_path / "out", model=mixed(6))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "text").write_text("mine")
    with pytest.raises(ExportError, match="something other than an export"):
        export(mixed(), tmp_path / "notes", overwrite=True)


def test_missing_package_is_needed_for_onnx_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(runtimes, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(MissingPackageError, match=r"onnxscript is not installed.*bln-search\[export\]"):
        export(mixed(), tmp_path / "out", formats=["safetensors", "onnx"])
    assert not list(tmp_path.iterdir())
    export(mixed(), tmp_path / "out")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: mixed(6), "the layer norm1 of this Mixed is .*features 6, .* is .*features 4"),
        (lambda: mixed(method="bln"), "the layer norm1 of this Mixed is method bln, .* is method bn,"),
        (pair, "this Pair has no normalization layer norm1|the export has no normalization layer norm"),
        (lambda: nn.Linear(2, 2), "this Linear has no normalization layer norm1"),
    ],
)
def test_weights_of_another_network_are_rejected(model, message, tmp_path):
    export(mixed(), tmp_path / "out")
    network = model()
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(DataError, match=message):
        bln_search.load(tmp_path / "out", model=network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_failed_loading_leaves_the_network_as_it_was(tmp_path):
    export(mixed(), tmp_path / "out")
    other = mixed()
    other.out = nn.Linear(5, 7)
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(DataError, match="is the export of another network than this Mixed"):
        bln_search.load(tmp_path / "out", model=other)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())
    with pytest.raises(ModelError, match=r"not an nn\.Module"):
        bln_search.load(tmp_path / "out", model="mixed")


def test_form_that_was_not_exported_is_named(tmp_path):
    export(mixed(), tmp_path / "weights")
    with pytest.raises(DataError, match=r"without a torch\.export program: .*model=network"):
        bln_search.load(tmp_path / "weights")
    export(mixed(), tmp_path / "program", formats=["torch_export"])
    with pytest.raises(DataError, match=r"without weights: .*\"safetensors\""):
        bln_search.load(tmp_path / "program", model=mixed())


def test_damaged_program_is_refused(tmp_path):
    export(mixed(), tmp_path / "out", formats=["torch_export"])
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path / "out", damaged)
    content = bytearray((damaged / "model.pt2").read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / "model.pt2").write_bytes(content)
    with pytest.raises(DataError, match=r"model\.pt2 is damaged: its SHA-256 is"):
        bln_search.load(damaged)
