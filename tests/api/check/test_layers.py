"""Layers of other libraries store statistics under the same names, and are checked and estimated as those of torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import bln_search
from bln_search.api.check.layers import estimate_moments, find_statistics_layers, make_trainable_layers
from bln_search.ranking.network_check import CheckVerdict, Variant
from tests.api.check.networks import loaders


class FrozenBatchNorm(nn.Module):
    """Batch normalization whose weights and statistics are buffers, as detectors have it."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
            self.register_buffer(name, torch.full((features,), float(value)))

    def forward(self, x):
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return x * scale + (self.bias - self.running_mean * scale)


class AlphaBatchNorm(nn.BatchNorm1d):
    """Blends stored statistics with those of the mini-batch in evaluation mode, as test-time adaptation does."""

    def forward(self, x):
        if self.training:
            return super().forward(x)
        mean = 0.9 * self.running_mean + 0.1 * x.mean(0)
        variance = 0.9 * self.running_var + 0.1 * x.var(0, unbiased=False)
        return (x - mean) / (variance + self.eps).sqrt() * self.weight + self.bias


def replace(network, make):
    """The network with layers of another class and equal values."""
    for name in ("1", "5"):
        old, new = network.get_submodule(name), make(16)
        new.load_state_dict(old.state_dict(), strict=False)
        setattr(network, name, new)
    return network.eval()


LAYERS = {
    "frozen": FrozenBatchNorm,
    "synchronized": nn.SyncBatchNorm,
    "blended": AlphaBatchNorm,
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_healthy_network_is_left_alone_and_statistics_of_its_layers_are_estimated(trained, make):
    network = replace(copy.deepcopy(trained), make)
    report = bln_search.check(network, *loaders(), progress=False)
    assert report.verdict is CheckVerdict.KEEP
    expected = bln_search.recalibrate(copy.deepcopy(trained), loaders()[0], progress=False)
    bln_search.recalibrate(network, loaders()[0], progress=False)
    for name in ("1", "5"):
        torch.testing.assert_close(network.get_submodule(name).running_mean, expected.get_submodule(name).running_mean)
        torch.testing.assert_close(network.get_submodule(name).running_var, expected.get_submodule(name).running_var)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_stale_statistics_are_found_in_other_layers(trained, make):
    network = replace(copy.deepcopy(trained), make)
    with torch.no_grad():
        network[0].weight.mul_(3)
        network[0].bias.add_(2)
    report = bln_search.check(network, *loaders(), progress=False)
    assert (report.verdict, report.chosen) == (CheckVerdict.CHANGE, Variant.RE_ESTIMATED)


def test_a_copy_with_plain_layers_has_the_same_outputs(trained):
    network = replace(copy.deepcopy(trained), FrozenBatchNorm)
    plain = copy.deepcopy(network)
    make_trainable_layers(plain)
    x = torch.randn(5, 10)
    torch.testing.assert_close(plain(x), network(x))
    assert all(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in find_statistics_layers(plain).values())


def test_a_layer_that_is_called_twice_has_the_mean_of_both_calls():
    norm = nn.BatchNorm1d(2)
    network = nn.Sequential(norm, nn.Linear(2, 2), norm)
    inputs = [torch.randn(8, 2) for _ in range(3)]
    other = copy.deepcopy(network)
    torch.optim.swa_utils.update_bn(inputs, other)
    moments = estimate_moments(network.eval(), {"0": norm}, inputs)["0"]
    assert moments.batches == 6
    torch.testing.assert_close(torch.from_numpy(moments.mean).float(), other[0].running_mean)
    torch.testing.assert_close(torch.from_numpy(moments.variance).float(), other[0].running_var)


def test_images_are_normalized_over_positions():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    images = [torch.randn(6, 3, 8, 8) for _ in range(2)]
    bln_search.recalibrate(network, images, progress=False)
    hidden = [network[0](x).detach().double() for x in images]
    mean = torch.stack([h.mean((0, 2, 3)) for h in hidden]).mean(0)
    variance = torch.stack([h.transpose(0, 1).flatten(1).var(1) for h in hidden]).mean(0)
    torch.testing.assert_close(network[1].running_mean.double(), mean, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(network[1].running_var.double(), variance, rtol=1e-4, atol=1e-6)
