"""With the method `none` every built-in network is the same network without normalization layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.evaluation.timing import count_parameters
from bln_search.models import build_model
from bln_search.norms import BN, make_norm
from tests.support.tiers import thinned


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def without(features):
    return make_norm("none", features)


def build(name, shape, *, classes=10, **options):
    """The network `none` in double precision, its biases drawn, and dropout off."""
    network = build_model(name, shape, classes, without, seed=3, options=options).double().eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        if parameter.ndim == 1:
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 10
    return network


def lenet():
    return nn.Sequential(
        nn.Conv2d(3, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(576, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip


def vgg():
    layers, inputs = [], 3
    for outputs in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if outputs == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
    dense = [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers, nn.Flatten(), *dense)


def nin():
    poolings = {"max": nn.MaxPool2d(3, 2, 1), "mean": nn.AvgPool2d(3, 2, 1)}
    layers, inputs = [], 3
    for outputs, kernel, pooling in (
        (192, 5, ""), (160, 1, ""), (96, 1, "max"), (192, 5, ""), (192, 1, ""), (192, 1, "mean"), (192, 3, ""),
        (192, 1, ""), (10, 1, ""),
    ):  # fmt: skip
        layers += [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.ReLU()]
        layers += [poolings[pooling]] if pooling else []
        inputs = outputs
    return nn.Sequential(*layers, Mean())


def mlp(activation):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 12), activation(), nn.Linear(12, 9), activation(), nn.Linear(9, 10)
    )


SEQUENTIAL = {
    "lenet": (("lenet", (3, 32, 32), {}), lenet),
    "vgg16": (("vgg16", (3, 32, 32), {}), vgg),
    "nin": (("nin", (3, 16, 16), {}), nin),
    "mlp after": (("mlp", (1, 8, 8), {"widths": [12, 9]}), lambda: mlp(nn.Tanh)),
    "mlp before": (("mlp", (1, 8, 8), {"widths": [12, 9], "placement": "before"}), lambda: mlp(nn.Tanh)),
    "mlp relu": (
        ("mlp", (64,), {"widths": [12, 9], "placement": "before", "activation": "relu"}),
        lambda: mlp(nn.ReLU),
    ),
}


@pytest.mark.parametrize("name", thinned(SEQUENTIAL, 3))
def test_feedforward_network_equals_the_plain_one(name):
    (model, shape, options), make_plain = SEQUENTIAL[name]
    network, plain = build(model, shape, **options), make_plain().double().eval()
    weights, biases = ([p for p in network.parameters() if (p.ndim > 1) is wide] for wide in (True, False))
    for layer in (layer for layer in plain if isinstance(layer, nn.Conv2d | nn.Linear)):
        layer.weight.data, layer.bias.data = weights.pop(0).data, biases.pop(0).data
    assert not weights
    assert not biases
    x = torch.randn(3, *shape, dtype=torch.float64)
    torch.testing.assert_close(network(x), plain(x), rtol=1e-12, atol=1e-12)


def test_nin_has_as_many_parameters_as_its_definition():
    """Inputs × outputs × kernel area, and a bias for each output, of the nine convolutions of Lin, Chen & Yan 2014."""
    convolutions = [
        *((3, 192, 5), (192, 160, 1), (160, 96, 1)),
        *((96, 192, 5), (192, 192, 1), (192, 192, 1)),
        *((192, 192, 3), (192, 192, 1), (192, 10, 1)),
    ]
    count = sum(inputs * outputs * kernel**2 + outputs for inputs, outputs, kernel in convolutions)
    assert count == 966_986
    assert sum(parameter.numel() for parameter in build("nin", (3, 32, 32)).parameters()) == count


def test_residual_network_equals_the_plain_one():
    network = build("resnet8", (3, 12, 12))
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    biases = [p for p in network.parameters() if p.ndim == 1]
    assert len(biases) == len(convolutions) + 1
    x = inputs = torch.randn(3, 3, 12, 12, dtype=torch.float64)
    layers = list(zip(convolutions, biases, strict=False))

    def convolve(x):
        layer, bias = layers.pop(0)
        return F.conv2d(x, layer.weight, bias, layer.stride, layer.padding)

    x = F.relu(convolve(x))
    for channels in (16, 32, 64):
        step = 1 if x.shape[1] == channels else 2
        shortcut = x[:, :, ::step, ::step]
        shortcut = torch.cat([shortcut, shortcut.new_zeros(3, channels - x.shape[1], *shortcut.shape[2:])], 1)
        x = F.relu(convolve(F.relu(convolve(x))) + shortcut)
    expected = F.linear(x.mean((2, 3)), network.classifier.weight, network.classifier.bias)
    torch.testing.assert_close(network(inputs), expected, rtol=1e-12, atol=1e-12)


def torch_layer(cell, layer):
    """The recurrent layer of torch with the weights and the biases of a layer of this project."""
    units, inputs = layer.units, layer.inputs
    make = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
    plain = make(inputs, units, batch_first=True).double()
    own = dict(layer.named_parameters())
    bias = next(value for name, value in own.items() if value.ndim == 1 and "norm_candidate" not in name)
    if "norm_candidate.of_step.0.bias" in own:
        bias = torch.cat([own["norm_input.of_step.0.bias"], own["norm_candidate.of_step.0.bias"]])
    order = {"rnn": "h", "lstm": "ofig", "gru": "zrc"}[cell]
    torch_order = {"rnn": "h", "lstm": "ifgo", "gru": "rzc"}[cell]

    def reorder(value):
        gates = dict(zip(order, value.detach().chunk(len(order)), strict=True))
        if cell == "gru":  # h = (1 − z) n + z h in torch
            gates["z"] = -gates["z"]
        return torch.cat([gates[gate] for gate in torch_order])

    plain.weight_ih_l0.data, plain.weight_hh_l0.data = reorder(layer.weight_input), reorder(layer.weight_hidden)
    plain.bias_ih_l0.data, plain.bias_hh_l0.data = reorder(bias), torch.zeros_like(plain.bias_hh_l0)
    return plain


@pytest.mark.parametrize("normalize", ["layers", "cells"])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_network_equals_the_plain_one(cell, normalize):
    network = build(cell, (5, 4), classes=3, widths=[6, 7], dense=8, normalize=normalize)
    first, second = (torch_layer(cell, layer) for layer in network.layers)
    dense = [module for module in network.classifier if isinstance(module, nn.Linear)]
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    hidden = second(first(x)[0])[0][:, -1]
    expected = dense[1](torch.tanh(dense[0](hidden)))
    torch.testing.assert_close(network(x), expected, rtol=1e-12, atol=1e-12)
    biases = 1 if cell == "rnn" else {"lstm": 4, "gru": 3}[cell]
    assert sum(p.numel() for p in network.layers[0].parameters()) == biases * 6 * (4 + 6 + 1)


@pytest.mark.parametrize("name", ["lenet", "resnet8", "lstm"])
def test_first_weights_are_those_of_a_normalized_network_of_the_same_seed(name):
    shape = (3, 32, 32)
    networks = [build_model(name, shape, 10, norm, seed=5) for norm in (without, BN)]
    weights = [dict(network.named_parameters()) for network in networks]
    assert weights[0].keys() <= weights[1].keys()
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert count_parameters(networks[0]) < count_parameters(networks[1])
