"""A trained network taken along answers as it did in its study, in every form, or is not written at all."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional as F

import bln_search
from bln_search.api import export, export_network, folder, runtimes
from bln_search.core.checkpoints import Folder
from bln_search.core.errors import DataError, ExportError, MissingPackageError, StorageFullError
from bln_search.data import DataSet
from bln_search.evaluation.batches import mini_batches
from bln_search.norms.network_layers import find_norms
from tests.api.trained import DIGITS, enlarged, row_of, train

NETWORKS = {
    "mlp paper": ("{name: mlp, widths: [16]}", "{method: bln}", DIGITS),
    "resnet8 paper": ("{name: resnet8, widths: [4, 8, 8]}", "{method: bln}", DIGITS),
    "lenet reference": ("{name: lenet}", "{method: bln, semantics: reference}", enlarged()),
    "mlp reference": ("{name: mlp, widths: [16]}", "{method: bln, semantics: reference}", DIGITS),
    "rnn cells": ("{name: rnn, widths: [6], dense: 8, normalize: cells}", "{method: bln}", DIGITS),
    "lstm layers": ("{name: lstm, widths: [6], dense: 8}", "{method: bln}", DIGITS),
    "resnet8 mbn": ("{name: resnet8, widths: [4, 8, 8]}", "{method: mbn, memory: 5}", DIGITS),
}
FOLDED = {"TTTT", "MM--"}
ROWS = [
    ("mlp paper", "TTTT"),
    ("mlp paper", "FFFF"),
    ("mlp reference", "FTFT"),
    ("resnet8 paper", "TTTT"),
    ("resnet8 paper", "FFFF"),
    ("lenet reference", "TTTT"),
    ("lenet reference", "FFFF"),
    ("rnn cells", "TTTT"),
    ("lstm layers", "FFFF"),
    ("resnet8 mbn", "MM--"),
]


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Each network, trained when it is first asked for."""
    folder, trained = tmp_path_factory.mktemp("checkpoints"), {}

    def network(name):
        if name not in trained:
            model, arm, data = NETWORKS[name]
            trained[name] = train(folder, model, arm, data=data)
        return Folder(folder), trained[name], NETWORKS[name][2]

    return network


@pytest.fixture(scope="module")
def exported(networks, tmp_path_factory):
    """The export of a row, written when it is first asked for."""
    folder, exports = tmp_path_factory.mktemp("exports"), {}

    def export_once(name, code):
        if (name, code) not in exports:
            checkpoints, trained, data = networks(name)
            row, test = row_of(trained, code)
            target = folder / f"{name}-{code}"
            export_network(row, checkpoints, data, target)
            exports[name, code] = target, test, data
        return exports[name, code]

    return export_once


def test_network_on_token_ids_is_not_exported(tmp_path):
    draw = np.random.default_rng(0)
    marks = {f"{split}_inputs": draw.integers(0, 9, (300, 5)).astype(np.uint16) for split in ("train", "test")}
    labels = {f"{split}_labels": np.arange(300) % 2 for split in ("train", "test")}
    token_data = DataSet("words", ("no", "yes"), **marks, **labels, vocabulary=9)
    model = "{name: lstm, widths: [4], embedding: 3, dense: 4}"
    row, _ = row_of(train(tmp_path / "checkpoints", model, "{method: bln}", data=token_data), "FFFF")
    with pytest.raises(ExportError, match="words consists of token ids"):
        export_network(row, Folder(tmp_path / "checkpoints"), token_data, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def forms_of(target):
    """The programs as somebody without bln-search runs them."""
    program = torch.export.load(target / "model.pt2").module()
    session = onnxruntime.InferenceSession(target / "model.onnx", providers=["CPUExecutionProvider"])
    return program, lambda x: torch.from_numpy(session.run(None, {"inputs": x.numpy()})[0])


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_every_form_equals_the_loaded_network_at_every_size(name, code, exported):
    target, _, data = exported(name, code)
    loaded, forms = bln_search.load(target), forms_of(target)
    reported = json.loads((target / "parity.json").read_text())
    assert [size["batch_size"] for size in reported["sizes"]] == [1, 25, 100]
    assert reported["largest_difference"] <= 1e-5
    for batch_size in (1, 2, 25, 100):
        x = torch.from_numpy(data.train_inputs[:batch_size]).float()
        with torch.no_grad():
            expected = loaded(x)
            assert expected.shape == (batch_size, 10)
            for run in forms:
                torch.testing.assert_close(run(x), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_the_loaded_network_has_the_losses_of_the_study(name, code, exported):
    target, test, data = exported(name, code)
    loaded = bln_search.load(target)
    assert not loaded.training
    inputs, targets = torch.from_numpy(data.test_inputs), torch.from_numpy(data.test_labels)
    with torch.no_grad():
        losses = [
            F.cross_entropy(loaded(x)[: len(y)], y, reduction="none") for x, y in mini_batches(inputs, targets, 25)
        ]
    np.testing.assert_allclose(torch.cat(losses).double().mean().item(), test.loss, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_row_of_population_values_is_folded_and_documented(name, code, exported):
    target, _, _ = exported(name, code)
    document = json.loads((target / "configuration.json").read_text())
    assert document["folded"] == (code in FOLDED)
    operations = {str(node.target) for node in torch.export.load(target / "model.pt2").graph.nodes}
    assert any("sqrt" in operation for operation in operations) != (code in FOLDED)
    compared = json.loads((target / "parity.json").read_text())["sizes"][0]["differences"]
    assert ("folded" in compared) == (code in FOLDED)
    text = (target / "README.md").read_text()
    assert ("one affine step y = x·scale + shift" in text) == (code in FOLDED)
    assert ("depends on the other examples" in text) == document["row"]["configuration"].startswith("F")


def test_unread_population_values_are_not_exported(exported):
    target, _, _ = exported("mlp reference", "FTFT")
    layers = find_norms(bln_search.load(target).network).values()
    for layer in layers:
        assert layer.population_batch_mean is None
        assert layer.population_feature_mean is None
        assert layer.population_batch_deviation is not None
        assert str(layer.configuration) == "FTFT"


def test_the_same_row_has_the_same_weights_byte_for_byte(exported, networks, tmp_path):
    target, _, data = exported("mlp paper", "TTTT")
    checkpoints, trained, _ = networks("mlp paper")
    export_network(row_of(trained, "TTTT")[0], checkpoints, data, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (target / "model.safetensors").read_bytes()


def test_per_slot_values_limit_the_mini_batch_size(tmp_path):
    trained = train(tmp_path, "{name: mlp, widths: [8]}", "{method: bln}", "{per_slot: true, batch_sizes: [25, 40]}")
    export_network(row_of(trained, "TTTT")[0], Folder(tmp_path), DIGITS, tmp_path / "out")
    document = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert (document["row"]["largest_batch_size"], document["folded"]) == (25, False)
    assert "25 slots" in document["not_folded_because"]
    sizes = json.loads((tmp_path / "out" / "parity.json").read_text())["sizes"]
    assert [bool(size["differences"]) for size in sizes] == [True, True, False]
    assert "a mini-batch of 100 has more" in sizes[2]["reason"]
    assert "at most 25 examples" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(ExportError, match="is undefined, so it cannot be exported: the feature population"):
        export_network(row_of(trained, "TTTT", 40)[0], Folder(tmp_path), DIGITS, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def changed(target, tmp_path, **changes):
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
    copy_folder = changed(exported("mlp paper", "TTTT")[0], tmp_path)
    content = bytearray((copy_folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy_folder / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"model.safetensors are damaged: their SHA-256 is"):
        bln_search.load(copy_folder)
    (copy_folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match="cannot be read"):
        bln_search.load(copy_folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "of format 2, this version of bln-search reads 1"),
        ({"format": None}, "has no format"),
        ({"standardization": "soap"}, "is damaged: standardization"),
        ({"row__configuration": "FFFF"}, "says FFFF, the layer layers.3 was written under TTTT"),
        ({"model__options": {"widths": [4]}}, "does not belong to the network"),
    ],
)
def test_a_changed_configuration_is_refused(changes, message, exported, tmp_path):
    copy_folder = changed(exported("mlp paper", "TTTT")[0], tmp_path, **changes)
    with pytest.raises(DataError, match=message):
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


def interrupted(*_):
    raise KeyboardInterrupt


def full(*_):
    raise OSError(28, "No space left on device")


def different(*_):
    return lambda x: torch.zeros(len(x), 10)


@pytest.mark.parametrize(
    ("name", "replacement", "error", "message"),
    [
        ("read_onnx_program", different, ExportError, r"network \(onnxruntime by [\d.]+ at"),
        ("write_programs", interrupted, KeyboardInterrupt, None),
        ("model_card", full, StorageFullError, "no disk space left"),
    ],
)
@pytest.mark.parametrize("before", ["absent", "an export"])
def test_failed_export_changes_no_file(
    name, replacement, error, message, before, exported, networks, tmp_path, monkeypatch
):
    target = tmp_path / "out"
    if before != "absent":
        shutil.copytree(exported("mlp paper", "TTTT")[0], target)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    checkpoints, trained, data = networks("mlp paper")
    monkeypatch.setattr(export, name, replacement)
    with pytest.raises(error, match=message):
        export_network(row_of(trained, "FFFF")[0], checkpoints, data, target, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
    assert [path.name for path in tmp_path.iterdir()] == ([] if before == "absent" else ["out"])


def test_only_an_export_is_replaced_and_only_with_overwrite(exported, networks, tmp_path):
    checkpoints, trained, data = networks("mlp paper")
    row, target = row_of(trained, "FFFF")[0], tmp_path / "out"
    shutil.copytree(exported("mlp paper", "TTTT")[0], target)
    with pytest.raises(ExportError, match="--overwrite"):
        export_network(row, checkpoints, data, target)
    export_network(row, checkpoints, data, target, overwrite=True)
    assert str(find_norms(bln_search.load(target).network)["layers.3"].configuration) == "FFFF"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "notes.txt").write_text("mine")
    for path in (tmp_path / "own", tmp_path / "own" / "notes.txt"):
        with pytest.raises(ExportError, match=r"something other than an export|is not a folder"):
            folder.check_target_folder(path, overwrite=True)


def test_a_damaged_checkpoint_is_not_exported(tmp_path, networks):
    _, trained, data = networks("mlp paper")
    row, _ = row_of(trained, "FFFF")
    (tmp_path / row.checkpoint.file).write_bytes(b"spoilt")
    with pytest.raises(DataError, match="is damaged: its SHA-256 is"):
        export_network(row, Folder(tmp_path), data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_package_names_its_extra_before_writing(networks, tmp_path, monkeypatch):
    checkpoints, trained, data = networks("mlp paper")
    monkeypatch.setattr(runtimes, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(MissingPackageError, match=r"onnxscript is not installed.*bln-search\[export\]"):
        export_network(row_of(trained, "FFFF")[0], checkpoints, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_inaccurate_affine_steps_are_not_folded(networks, tmp_path, monkeypatch):
    checkpoints, trained, data = networks("mlp paper")
    compare = export.compare

    def compare_with_error(eager, forms, *arguments):
        if forms.keys() == {"folded"}:
            forms = {"folded": lambda x: eager(x) + 1e-3}
        return compare(eager, forms, *arguments)

    monkeypatch.setattr(export, "compare", compare_with_error)
    description, parity = export_network(row_of(trained, "TTTT")[0], checkpoints, data, tmp_path / "out")
    assert not description.folded
    assert "differ from the layers by 0.001" in description.not_folded_because
    assert parity.largest_difference <= 1e-5
