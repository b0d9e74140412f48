"""The export of a user's own network: its forms, its folder, and what load makes of it."""

from __future__ import annotations

import copy
import json

import onnxruntime
import pytest
import torch

import bln_search
from bln_search.norms.network.layers import get_norms_by_name
from tests.api.export.own_networks import INPUTS, TOKENS, mixed, pair, rows


def onnx_outputs(folder, tensors):
    """The outputs of the ONNX program, by name."""
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {name: x.numpy() for name, x in tensors.items()}), strict=True))


def description_of(folder):
    return json.loads((folder / "configuration.json").read_text())


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("same", None),
        pytest.param("same", "TTTT", marks=pytest.mark.slow),
        pytest.param("same", "FFFF", marks=pytest.mark.slow),
        pytest.param("bln", "TFFT", marks=pytest.mark.slow),
        pytest.param("bln", "TTTT", marks=pytest.mark.slow),
        pytest.param("bln", "BBFF", marks=pytest.mark.slow),
    ],
)
def test_every_form_equals_the_network_at_every_size(method, code, tmp_path):
    network = mixed(method=method)
    row = None if code is None else rows(network, blends=["N4"])[code]
    report = bln_search.export(network, tmp_path / "out", example_inputs=INPUTS, configuration=row)
    assert report.largest_difference <= 1e-5
    expected_network = network if row is None else bln_search.apply_configuration(network, row)
    program, own = bln_search.load(tmp_path / "out"), bln_search.load(tmp_path / "out", model=mixed(method=method))
    for size in (1, 4, 17):
        x = torch.randn(size, 1, 6, 6)
        with torch.no_grad():
            expected = expected_network(x)
            torch.testing.assert_close(own(x), expected, rtol=0, atol=0)
        torch.testing.assert_close(program(x), expected, rtol=0, atol=1e-5)
        (output,) = onnx_outputs(tmp_path / "out", {"inputs": x}).values()
        torch.testing.assert_close(torch.from_numpy(output), expected, rtol=0, atol=1e-5)
    assert report.is_folded == (code == "TTTT")
    assert report.is_independent == (code in {None, "TTTT"})


@pytest.mark.slow
def test_several_inputs_and_outputs_keep_their_names(tmp_path):
    network = pair()
    bln_search.export(network, tmp_path / "out", example_inputs=TOKENS)
    description = description_of(tmp_path / "out")
    assert description["inputs"] == {
        "tokens": {"dtype": "int64", "shape": [None, 5]},
        "scale": {"dtype": "float32", "shape": [None, 1]},
    }
    assert {name: output["shape"] for name, output in description["outputs"].items()} == {
        "logits": [None, 2],
        "hidden_0": [None, 4],
        "hidden_1": [None],
    }
    inputs = {name: tensor.repeat(3, 1)[:7] for name, tensor in TOKENS.items()}
    with torch.no_grad():
        expected = network(**inputs)
    actual = bln_search.load(tmp_path / "out")(**inputs)
    assert actual.keys() == expected.keys()
    torch.testing.assert_close(actual["hidden"], expected["hidden"], rtol=0, atol=1e-5)
    outputs = onnx_outputs(tmp_path / "out", inputs)
    torch.testing.assert_close(torch.from_numpy(outputs["logits"]), expected["logits"], rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(outputs["hidden_1"]), expected["hidden"][1], rtol=0, atol=1e-5)


def test_exporting_does_not_change_the_network(tmp_path):
    network = mixed(method="bln").train()
    ranked = rows(network)
    bln_search.apply_configuration(network, ranked["TTTT"])
    before = copy.deepcopy(network.state_dict())
    bln_search.export(
        network, tmp_path / "out", example_inputs=INPUTS, configuration=ranked["FTFF"], formats=["safetensors"]
    )
    assert network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert {layer["configuration"] for layer in description_of(tmp_path / "out")["layers"].values()} == {"FTFF"}


def test_per_layer_configuration_is_exported(tmp_path):
    network = mixed(method="bln")
    ranked = rows(network)
    bln_search.apply_configuration(network, ranked["TTTT"])
    report = bln_search.export(
        network, tmp_path / "out", example_inputs=INPUTS, configuration="TTFF.TTTT", formats=["safetensors"]
    )
    layers = get_norms_by_name(bln_search.load(tmp_path / "out", model=mixed(method="bln")))
    assert {name: str(layer.configuration) for name, layer in layers.items()} == {"norm1": "TTFF", "norm2": "TTTT"}
    assert not report.is_folded
    assert layers["norm1"].population_feature_mean is None


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_model_card_says_whether_outputs_depend_on_the_mini_batch(tmp_path):
    network = mixed()
    for folder, code, is_independent in (("own", None, True), ("batch", "FFFF", False)):
        report = bln_search.export(
            network, tmp_path / folder, example_inputs=INPUTS, configuration=code, formats=["safetensors"]
        )
        assert report.is_independent == is_independent == description_of(tmp_path / folder)["deterministic"]
        card = (tmp_path / folder / "README.md").read_text()
        assert ("depends on the other examples" in card) != is_independent
        assert "| `norm1` | BN |" in card
        assert ("dependent on" in str(report)) != is_independent


def test_loaded_program_is_for_inference_alone(tmp_path):
    bln_search.export(mixed(), tmp_path / "out", example_inputs=INPUTS, formats=["torch_export"])
    program = bln_search.load(tmp_path / "out")
    assert not program.eval().training
    assert not program(INPUTS.requires_grad_()).requires_grad
    INPUTS.requires_grad_(requires_grad=False)
    with pytest.raises(bln_search.ModelError, match="model=network"):
        program.train()
