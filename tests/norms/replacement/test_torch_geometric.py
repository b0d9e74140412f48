"""Normalization layers of PyTorch Geometric keep their outputs, or stay with the true reason, where it is installed."""

from __future__ import annotations

import copy
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import ModelError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("torch_geometric") is None, reason="torch_geometric is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

CHANNELS, NODES = 6, 24
CONVERTED = {
    "BatchNorm": ("bn", {}),
    "BatchNorm without affine": ("bn", {"affine": False}),
    "BatchNorm of single nodes": ("bn", {"allow_single_element": True}),
    "LayerNorm": ("ln", {"mode": "node"}),
    "LayerNorm without affine": ("ln", {"mode": "node", "affine": False}),
    "DiffGroupNorm": ("bn", {"groups": 3}),
}
KEPT = {
    "LayerNorm": ({"mode": "graph"}, "nodes of each graph"),
    "GraphNorm": ({}, "nodes of each graph"),
    "InstanceNorm": ({"track_running_stats": True}, "nodes of each graph"),
    "PairNorm": ({}, "nodes of each graph"),
    "MeanSubtractionNorm": ({}, "does not divide by a deviation"),
    "GraphSizeNorm": ({}, "size of the graph"),
    "MessageNorm": ({}, "norms of vectors"),
    "HeteroBatchNorm": ({"num_types": 2}, "each type of node"),
    "HeteroLayerNorm": ({"num_types": 2}, "each type of node"),
}
WITHOUT_CHANNELS = ("PairNorm", "MeanSubtractionNorm", "GraphSizeNorm", "MessageNorm")


def make_layer(name, options):
    from torch_geometric.nn import norm

    torch.manual_seed(0)
    kind = getattr(norm, name.partition(" ")[0])
    layer = kind(**options) if name in WITHOUT_CHANNELS else kind(CHANNELS, **options)
    for value in [*layer.parameters(), *layer.buffers()]:
        if value.is_floating_point():
            value.data.uniform_(0.5, 2.0)
    return layer.double()


def formula(layer, x, mini_batch):
    """Outputs by the formula of the layer, with statistics of the mini-batch or running ones."""

    def batch_norm(norm, values):
        mean = values.mean(0) if mini_batch else norm.running_mean
        variance = values.var(0, unbiased=False) if mini_batch else norm.running_var
        scaled = (values - mean) / (variance + norm.eps).sqrt()
        return scaled if norm.weight is None else scaled * norm.weight + norm.bias

    if hasattr(layer, "module"):
        return batch_norm(layer.module, x)
    if hasattr(layer, "lin"):
        groups = layer.lin(x).softmax(-1).unsqueeze(-1) * x.unsqueeze(-2)
        normalized = batch_norm(layer.norm, groups.flatten(1))
        return x + layer.lamda * normalized.reshape(groups.shape).sum(-2)
    scaled = (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True) + layer.eps).sqrt()
    return scaled if layer.weight is None else scaled * layer.weight + layer.bias


@pytest.mark.parametrize("name", CONVERTED)
def test_converted_layer_is_its_formula_with_running_and_with_mini_batch_statistics(name):
    method, options = CONVERTED[name]
    layer = make_layer(name, options)
    network = nn.Sequential(copy.deepcopy(layer)).eval()
    converted = bln_search.convert(network, method="same", strict=True)
    x = 2 * torch.randn(NODES, CHANNELS, dtype=torch.float64) + 1
    with torch.no_grad():
        torch.testing.assert_close(converted(x), layer.eval()(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(converted(x), formula(layer, x, mini_batch=False), rtol=1e-12, atol=1e-12)
        if method == "bn":
            bln_search.apply_configuration(converted, "FF--")
            torch.testing.assert_close(converted(x), formula(layer, x, mini_batch=True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", KEPT)
def test_kept_layer_has_the_true_reason_and_keeps_its_outputs(name):
    options, reason = KEPT[name]
    layer = make_layer(name, options)
    with pytest.raises(ModelError, match=reason):
        bln_search.convert(nn.Sequential(copy.deepcopy(layer)), method="same", strict=True)
    network = nn.ModuleList([nn.BatchNorm1d(CHANNELS), copy.deepcopy(layer)]).double().eval()
    with pytest.warns(UserWarning, match=reason):
        bln_search.convert(network, method="same")
    assert type(network[1]) is type(layer)
    assert isinstance(network[0], bln_search.BN)


def test_every_normalization_layer_of_the_library_is_tested():
    from torch_geometric.nn import norm

    assert {name.partition(" ")[0] for name in (*CONVERTED, *KEPT)} == set(norm.classes)
