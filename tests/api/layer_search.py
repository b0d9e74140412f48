"""A small network with two BLN layers and data for it, for per-layer searches."""

from __future__ import annotations

from functools import partial

import torch
from torch.utils.data import DataLoader, TensorDataset

from bln_search.models import MLP
from bln_search.norms import BLN

SIZE = 10


def network(widths=(9, 8)):
    torch.manual_seed(0)
    return MLP((6,), 4, partial(BLN, batch_size=SIZE), widths=widths)


def loader(n, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 6, generator=generator)
    return DataLoader(TensorDataset(inputs, inputs[:, :4].argmax(1)), batch_size=SIZE)


def normed(layers, norm=torch.nn.BatchNorm1d):
    """Linear layers of six units, each with a normalization layer and tanh."""
    torch.manual_seed(0)
    for _ in range(layers):
        yield from (torch.nn.Linear(6, 6), norm(6), torch.nn.Tanh())
