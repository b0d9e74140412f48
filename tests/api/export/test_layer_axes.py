"""A network with LN and BLN over the whole layer is exported, loaded and folded like others."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import DataError

INPUTS = torch.randn(6, 1, 6, 6, generator=torch.Generator().manual_seed(3))


def network(axes="layer", affine="unit"):
    torch.manual_seed(0)
    positions = (4, 4) if affine == "unit" else None
    layers = [
        bln_search.LN(4, axes=axes, affine=affine, positions=positions),
        bln_search.BLN(3, axes=axes, batch_size=3),
    ]
    made = nn.Sequential(
        nn.Conv2d(1, 4, 3), layers[0], nn.ReLU(), nn.Conv2d(4, 3, 3), layers[1], nn.Flatten(), nn.Linear(12, 3)
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made.eval()


def test_the_description_names_the_axes_and_a_network_with_others_is_refused(tmp_path):
    bln_search.export(network(), tmp_path / "out", example_inputs=INPUTS, formats=["safetensors"])
    description = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert description["format"] == 5
    assert [(layer["axes"], layer["affine"]) for layer in description["layers"].values()] == [
        ("layer", "unit"),
        ("layer", "channel"),
    ]
    with pytest.raises(DataError, match=r"axes position.*axes layer"):
        bln_search.load(tmp_path / "out", model=network(axes="position"))


def test_default_options_keep_the_earlier_format(tmp_path):
    made = network(axes="position", affine="channel")
    bln_search.export(made, tmp_path / "out", example_inputs=INPUTS, formats=["safetensors"])
    description = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert description["format"] == 2
    assert all("axes" not in layer and "affine" not in layer for layer in description["layers"].values())
