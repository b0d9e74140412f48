"""A network that counts its calls, and mini-batches for it, right and wrong."""

from __future__ import annotations

import torch
from torch import nn

from tests.api.own_network import make_loader, make_network


class Counted(nn.Module):
    """A network that counts the mini-batches that reach it."""

    def __init__(self):
        super().__init__()
        self.network, self.calls = make_network().eval(), 0

    def forward(self, x):
        self.calls += 1
        return self.network(x)


def batches(n=50, size=10, seed=0):
    return list(make_loader(n, size, seed))


def with_batch(position, change, n=50):
    """Mini-batches, one of which is changed."""
    changed = batches(n)
    changed[position] = change(*changed[position])
    return changed


def with_nan(x, y):
    x = x.clone()
    x[1, 2] = torch.nan
    return x, y


def regression(values):
    return [(x, values(len(x))) for x, _ in batches()]


TRAIN, VALIDATION = batches(), batches(seed=1)
