"""A small converted network, its data in mini-batches, and the losses of its rows."""

from __future__ import annotations

import torch
from torch import nn

import bln_search
from bln_search.core.enums import Split

torch.manual_seed(5)
X, Y = torch.randn(60, 7), torch.randint(0, 4, (60,))


def cut(start, end, x=X):
    return [(x[first : first + 5], Y[first : first + 5]) for first in range(start, end, 5)]


def converted(network=None, **options):
    torch.manual_seed(1)
    if network is None:
        network = nn.Sequential(
            nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6), nn.LayerNorm(6), nn.Linear(6, 4)
        )
    return bln_search.convert(network, **{"batch_size": 5, **options})


def losses(ranked):
    return {str(row): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked}
