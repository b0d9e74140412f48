"""A small network with BLN layers, and random data for it."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search


def make_loader(n=50, size=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=size)


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), bln_search.BLN(8), nn.Linear(8, 5), bln_search.BLN(5), nn.Linear(5, 2)
    )
