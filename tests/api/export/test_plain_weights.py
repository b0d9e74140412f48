"""Weights for layers of torch alone are exported where torch has such layers; they need no bln-search."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import bln_search
from tests.api.export.own_networks import INPUTS, Mixed, mixed, rows

FAST = {"example_inputs": INPUTS, "formats": ["safetensors"]}


def test_network_of_torch_alone_loads_plain_weights_and_has_the_same_outputs(tmp_path):
    network = mixed()
    report = bln_search.export(network, tmp_path / "out", **FAST)
    assert list(report.files) == ["model.safetensors", "plain.safetensors"]
    plain = Mixed()
    plain.load_state_dict(load_file(tmp_path / "out" / "plain.safetensors"))
    assert not any(type(module).__module__.startswith("bln_search") for module in plain.modules())
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()(INPUTS), network(INPUTS), rtol=0, atol=1e-6)
    assert "`plain.safetensors`: the same outputs with torch alone" in (tmp_path / "out" / "README.md").read_text()


def test_population_row_of_bln_has_plain_weights(tmp_path):
    network = mixed(method="bln")
    row = rows(network)["TTTT"]
    bln_search.export(network, tmp_path / "out", configuration=row, **FAST)
    assert (tmp_path / "out" / "plain.safetensors").exists()
    sizes = json.loads((tmp_path / "out" / "parity.json").read_text())["sizes"]
    assert all(size["differences"]["plain"] <= 1e-5 for size in sizes)


@pytest.mark.parametrize("code", ["TTFF", "FFFF"])
def test_row_that_torch_has_no_layer_for_has_no_plain_weights(code, tmp_path):
    network = mixed(method="bln")
    report = bln_search.export(network, tmp_path / "out", configuration=rows(network)[code], **FAST)
    assert list(report.files) == ["model.safetensors"]
    assert "plain" not in (tmp_path / "out" / "README.md").read_text()
