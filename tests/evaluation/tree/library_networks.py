"""A transformer block with norms before and after attention, and one whose norms are used several times."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import make_norm
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name

D = 6

SIZE = 4
"""The mini-batch size."""


class Block(nn.Module):
    """Two normalization layers with a replaceable part `between` them; input (N, 5, 6)."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.second = norm(D), norm(D)
        self.stem, self.middle, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 4)

    def classify(self, x):
        return self.head(x.mean(1))

    def forward(self, x):
        x = self.first(torch.tanh(self.stem(x)))
        return self.classify(self.second(x + self.between(x)))

    def between(self, x):
        return torch.tanh(self.middle(x))


class Tied(Block):
    """Calls the same block and its norm several times, and another norm in between."""

    def forward(self, x):
        x = self.first(self.stem(x))
        for _ in range(2):
            x = x + self.first(torch.tanh(self.middle(x)))
            x = self.second(x)
        return self.classify(self.first(x))


def draw_sequences(n, seed=1):
    """Return random sequences (n, 5, D) and classes (n,)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, D, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 4, (n,), generator=generator)


def build_network(make_network, method):
    """Return a network in double precision with random γ and β."""
    torch.manual_seed(0)
    network = make_network(partial(make_norm, method, batch_size=SIZE)).double().eval()
    with torch.no_grad():
        for layer in get_norms_by_name(network).values():
            layer.weight.normal_()
            layer.bias.normal_()
    return network


def frozen_populations(network):
    moments = {
        PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, draw_sequences(24, 2)[0].split(SIZE))
    }
    return compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
