"""Programs of networks with moving statistics take the stream and return it, as the network moves its own."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file

import bln_search
from bln_search.api.export.stream import NetworkWithStream, initial_stream
from bln_search.api.export.study_export import export_trained_row
from bln_search.core.blend import PopulationWeight
from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import BatchDependenceWarning, DataError, ModelError
from bln_search.norms.network.layers import get_norms_by_name
from tests.api.export.own_networks import INPUTS, TOKENS, mixed, pair, rows
from tests.api.trained import DIGITS, row_of, train

SIZES = (3, 1, 4, 6, 2)


def configured(code="EEEE", weight="N4"):
    network = mixed(method="bln")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchDependenceWarning)
        return bln_search.apply_configuration(network, rows(network, moving=[weight])[code]).eval()


def export(network, folder, inputs=INPUTS, **options):
    return bln_search.export(network, folder, example_inputs=inputs, **options)


@torch.no_grad()
def expected_outputs(network, batches):
    network = copy.deepcopy(network)
    bln_search.reset_stream(network)
    return [network(x) for x in batches]


def draw_batches(dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(size, 1, 6, 6, generator=generator, dtype=dtype) + 0.5 for size in SIZES]


@pytest.mark.parametrize("code", ["EEEE", "ETFF", "FFBE"])
def test_the_function_of_inputs_and_stream_equals_the_network_in_double_precision(code):
    network = configured("EEEE").double()
    for layer in get_norms_by_name(network).values():
        layer.configure(InferenceConfiguration(code), blend=PopulationWeight(0.9))
    batches, stream = draw_batches(torch.float64), tuple(initial_stream(network).values())
    for x, expected in zip(batches, expected_outputs(network, batches), strict=True):
        outputs, stream = NetworkWithStream(network)(x, stream)
        torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    network, folder = configured(), tmp_path_factory.mktemp("exported") / "out"
    report = export(network, folder)
    return network, folder, report


def test_five_mini_batches_of_each_form_equal_the_network(exported):
    network, folder, report = exported
    assert report.largest_difference <= 1e-5
    assert not report.is_independent
    assert not report.is_folded
    batches = draw_batches()
    expected = expected_outputs(network, batches)
    loaded, own = bln_search.load(folder), bln_search.load(folder, model=mixed(method="bln"))
    for program in (loaded, own):
        for _ in range(2):
            for x, output in zip(batches, expected, strict=True):
                torch.testing.assert_close(program(x).detach(), output, rtol=0, atol=1e-5)
            bln_search.reset_stream(program)


def test_programs_and_files_are_enough_without_this_package(exported):
    network, folder, _ = exported
    names = json.loads((folder / "configuration.json").read_text())["stream"]
    values = load_file(folder / "stream.safetensors")
    assert names[:4] == ["norm1.batch_mean", "norm1.batch_deviation", "norm1.feature_mean", "norm1.feature_deviation"]
    assert len(names) == 8
    batches = draw_batches()
    expected = expected_outputs(network, batches)
    program, stream = torch.export.load(folder / "model.pt2").module(), tuple(values[name] for name in names)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    assert [node.name for node in session.get_inputs()] == ["inputs", *(f"stream.{name}" for name in names)]
    assert [node.name for node in session.get_outputs()] == ["outputs", *(f"next_stream.{name}" for name in names)]
    onnx_stream = {f"stream.{name}": values[name].numpy() for name in names}
    for x, output in zip(batches, expected, strict=True):
        actual, stream = program(x, stream)
        torch.testing.assert_close(actual, output, rtol=0, atol=1e-5)
        actual, *following = session.run(None, {"inputs": x.numpy(), **onnx_stream})
        onnx_stream = dict(zip(onnx_stream, following, strict=True))
        np.testing.assert_allclose(actual, output.numpy(), rtol=0, atol=1e-5)
    for value, other in zip(stream, onnx_stream.values(), strict=True):
        np.testing.assert_allclose(value.detach().numpy(), other, rtol=1e-5)


def test_the_card_says_how_to_pass_the_stream(exported):
    _, folder, _ = exported
    card = (folder / "README.md").read_text()
    assert "stream.safetensors" in card
    assert "outputs, stream = program(inputs, stream)" in card
    assert "and on earlier mini-batches" in card


def test_the_exported_network_keeps_its_own_stream(tmp_path):
    network, batches = configured(), draw_batches()
    expected = expected_outputs(network, batches)
    with torch.no_grad():
        network(batches[0])
        export(network, tmp_path / "out", formats=["torch_export"])
        assert torch.equal(network(batches[1]), expected[1])


def test_inputs_by_name_and_outputs_of_any_structure(tmp_path):
    network = pair()
    for layer in get_norms_by_name(network).values():
        layer.configure(InferenceConfiguration("EE--"), blend=PopulationWeight(0.9))
    export(network, tmp_path / "out", TOKENS)
    program = bln_search.load(tmp_path / "out")
    with torch.no_grad():
        for size in (2, 4, 3):
            inputs = {name: tensor[:size] for name, tensor in TOKENS.items()}
            expected, actual = network(**inputs), program(**inputs)
            torch.testing.assert_close(actual["logits"], expected["logits"], rtol=0, atol=1e-5)
            torch.testing.assert_close(actual["hidden"], expected["hidden"], rtol=0, atol=1e-5)


def test_a_damaged_stream_and_training_mode_are_one_error(exported, tmp_path):
    folder = tmp_path / "out"
    export(exported[0], folder, formats=["torch_export"])
    with pytest.raises(ModelError, match="cannot be trained"):
        bln_search.load(folder).train()
    (folder / "stream.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match=r"stream\.safetensors is damaged"):
        bln_search.load(folder)


def test_a_row_of_a_study_has_its_table_loss_and_its_stream(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    study, trial, checkpoint, evaluations = train(
        folder, "{name: mlp, widths: [16]}", "{method: bn}", "{moving: [0.9]}"
    )
    moving = [item for item in evaluations if item.key.estimate == "frozen@0.9"]
    row, test = row_of((study, trial, checkpoint, moving), "EE--")
    description, parity = export_trained_row(row, FolderStore(folder), DIGITS, tmp_path / "out")
    assert (description.format, description.row.deterministic, len(description.stream)) == (7, False, 2)
    assert parity.largest_difference <= 1e-5
    assert parity.test.loss == pytest.approx(test.loss, abs=1e-5)
    loaded, program = bln_search.load(tmp_path / "out"), torch.export.load(tmp_path / "out" / "model.pt2").module()
    values = load_file(tmp_path / "out" / "stream.safetensors")
    stream = tuple(values[name] for name in description.stream)
    for size in (7, 1, 25, 5, 2):
        x = torch.from_numpy(DIGITS.train_inputs[:size]).float()
        outputs, stream = program(x, stream)
        torch.testing.assert_close(outputs, loaded(x), rtol=0, atol=1e-5)
    assert "moving average is α · value before" in (tmp_path / "out" / "README.md").read_text()
