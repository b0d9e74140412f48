"""Small classification networks in float64, and the same networks written as formulas."""

from __future__ import annotations

import math

import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.norms import BLN, BN
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.statistics import LayerPopulation, PopulationPair

EPSILON = 1e-4


def make_mlp(norm=BN, classes=3, seed=0):
    """Dense, normalization, ReLU, dense: (n, 6) to logits, in evaluation mode with mini-batch statistics."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, 8), norm(8), nn.ReLU(), nn.Linear(8, classes)).double()
    return _randomize(network)


def make_conv_net(norm=BN, classes=3, seed=0):
    """Two convolutions with normalization, mean over positions, dense: (n, 3, 5, 5) to logits."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        *(nn.Conv2d(3, 4, 3), norm(4), nn.ReLU(), nn.Conv2d(4, 5, 2), norm(5), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, classes)),
    ).double()
    return _randomize(network)


def _randomize(network):
    """Random γ, β, and a population for each normalization layer; mini-batch statistics."""
    for layer in get_norms_by_name(network).values():
        nn.init.uniform_(layer.weight, 0.5, 1.5)
        nn.init.normal_(layer.bias, std=0.3)
    return use_configuration(network.eval(), "F")


def use_configuration(network, letter):
    """Configure all statistics alike, with a population that depends on the layer's size alone."""
    for layer in get_norms_by_name(network).values():
        generator = torch.Generator().manual_seed(layer.num_features)
        pairs = {}
        for name, has in (("batch", layer.has_batch_statistics), ("feature", layer.has_feature_statistics)):
            size = layer.num_features if name == "batch" else 1
            mean = 0.2 * torch.randn(size, generator=generator, dtype=torch.float64)[None]
            deviation = 0.5 + torch.rand(size, generator=generator, dtype=torch.float64)[None]
            pairs[name] = PopulationPair(mean, deviation) if has else None
        layer.configure(InferenceConfiguration(letter * 4), LayerPopulation(**pairs))
    return network


def make_mini_batches(shape=(6,), sizes=(8, 8, 8, 8, 8), seed=1):
    """Mini-batches of random inputs whose mean drifts."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(size, *shape, generator=generator, dtype=torch.float64) + 0.3 * index
        for index, size in enumerate(sizes)
    ]


def normalize_by_mini_batch(x, gamma, beta, *, method):
    """BN (Ioffe & Szegedy 2015) or BLN (Eq. 10-17) of (n, d), with the statistics of the mini-batch."""
    count, width = x.shape
    mean = x.sum(0) / count
    by_batch = (x - mean) / torch.sqrt(((x - mean) ** 2).sum(0) / count + EPSILON)
    if method is BN:
        return by_batch * gamma + beta
    assert method is BLN
    centre = (x.sum(1) / width)[:, None]
    by_feature = (x - centre) / torch.sqrt(((x - centre) ** 2).sum(1) / width + EPSILON)[:, None]
    weights = 1 - (1 / count + 1e-4), 1 / count - 1e-4
    return (weights[0] * by_batch + weights[1] * by_feature) / math.sqrt(width) * gamma + beta


def compute_mlp(network, x, gamma, beta, *, method=BN):
    """The logits of `make_mlp` with other γ and β, from the weights of its dense layers."""
    first, last = network[0], network[3]
    hidden = normalize_by_mini_batch(x @ first.weight.detach().T + first.bias.detach(), gamma, beta, method=method)
    return torch.clamp(hidden, min=0) @ last.weight.detach().T + last.bias.detach()


def compute_entropies(logits):
    """The entropy of each row."""
    p = torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)
    return -(p * torch.log(p)).sum(1)
