"""A network with two inputs and a mask, its data, and the losses that a plain loop gives."""

from __future__ import annotations

import copy
from collections import namedtuple
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import bln_search

SIZE = 6
torch.manual_seed(3)
X, Z, Y = torch.randn(33, 5), torch.randn(33, 4), torch.randint(0, 3, (33,))
MASK = torch.rand(33, 5) > 0.3

Pair = namedtuple("Pair", ["x", "z"])


@dataclass
class Sample:
    x: torch.Tensor
    z: torch.Tensor
    y: torch.Tensor
    name: str = "sample"


class Network(nn.Module):
    """Two inputs and a mask, which meet before and behind normalization layers; output of a given form."""

    def __init__(self, output=lambda scores: scores):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.head = nn.Linear(5, 8), nn.Linear(4, 8), nn.Linear(8, 3)
        self.norms = nn.ModuleList([bln_search.BLN(8, batch_size=SIZE) for _ in range(2)])
        self.output = output
        with torch.no_grad():
            for norm in self.norms:
                norm.weight.uniform_(0.5, 1.5)
                norm.bias.normal_()

    def forward(self, x, z, mask=None):
        x = x if mask is None else x * mask
        y = torch.tanh(self.norms[0](self.first(x)))
        y = self.norms[1](y + self.second(z))
        return self.output(self.head(y if mask is None else y * mask.float().mean(1, keepdim=True)))


def split(make):
    return [make(slice(start, min(start + SIZE, len(X)))) for start in range(0, len(X), SIZE)]


def keywords(part):
    return {"x": X[part], "z": Z[part], "mask": MASK[part], "labels": Y[part]}


def outcomes(ranked):
    return {(str(key.configuration), key.estimate): value.losses for key, value in ranked.outcomes.items()}


@torch.no_grad()
def expected_outcomes(ranked, network, use_mask):
    """Losses of every applied row by plain passes; the last mini-batch is filled with the first examples."""
    losses = {}
    for row in ranked:
        applied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
        applied.output = lambda scores: scores
        order = [*range(33), *range(3)]
        scores = torch.cat(
            [applied(X[part], Z[part], MASK[part] if use_mask else None) for part in torch.tensor(order).split(SIZE)]
        )
        losses[str(row.configuration), row.row.estimate] = F.cross_entropy(scores[:33], Y, reduction="none").numpy()
    return losses


def check(network, loader, use_mask=False, train=None, **options):
    ranked = bln_search.evaluate_configurations(network, loader if train is None else train, loader, **options)
    expected = expected_outcomes(ranked, network, use_mask)
    assert outcomes(ranked).keys() == expected.keys()
    assert len(expected) == 16
    for key, losses in outcomes(ranked).items():
        torch.testing.assert_close(torch.from_numpy(losses), torch.from_numpy(expected[key]), rtol=1e-5, atol=1e-5)
    assert len({round(float(losses.mean()), 4) for losses in expected.values()}) > 8
    return ranked
