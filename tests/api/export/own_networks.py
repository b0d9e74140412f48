"""Networks of a user that are exported, with example inputs."""

from __future__ import annotations

import torch
from torch import nn

import bln_search

INPUTS = torch.randn(6, 1, 6, 6, generator=torch.Generator().manual_seed(3))


class Mixed(nn.Module):
    """BatchNorm over images and LayerNorm over features."""

    def __init__(self, channels=4):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(1, channels, 3), nn.BatchNorm2d(channels)
        self.second, self.norm2 = nn.Linear(channels, 5), nn.LayerNorm(5)
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.norm2(self.second(torch.relu(self.norm1(self.first(x))).mean((2, 3)))))


class Pair(nn.Module):
    """Two inputs, one of them whole numbers; outputs in a dictionary and a tuple."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.out = nn.Embedding(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, tokens, scale=None):
        y = self.norm(self.embedding(tokens).mean(1) * (1 if scale is None else scale))
        return {"logits": self.out(y), "hidden": (y, y.square().sum(1))}


TOKENS = {"tokens": torch.arange(20).reshape(4, 5) % 5, "scale": torch.linspace(1, 2, 4).unsqueeze(1)}


def trained(network, *inputs):
    """The network in evaluation mode, with running statistics and without equal γ and β."""
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        network(*inputs)
    return network.eval()


def mixed(channels=4, method="same"):
    torch.manual_seed(0)
    network = trained(Mixed(channels), INPUTS) if method == "same" else Mixed(channels).eval()
    return bln_search.convert(network, method=method, batch_size=3)


def pair():
    torch.manual_seed(1)
    return bln_search.convert(trained(Pair(), TOKENS["tokens"]), method="same")


def rows(network, **options):
    """The ranked table over the example inputs in mini-batches of 3."""
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    batches = [(INPUTS[:3], labels[:3]), (INPUTS[3:], labels[3:])]
    return bln_search.evaluate_configurations(network, batches, batches, **options)
