"""A small trained network with BatchNorm, and data of several distributions for it."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search


def make_data(n=120, seed=2, scale=1.0, shift=0.0, size=20):
    """The class depends on the first feature; inputs are scaled and shifted."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    y = (x[:, 0] + 0.3 * torch.randn(n, generator=generator) > 0).long()
    return DataLoader(TensorDataset(scale * x + shift, y), size)


def conditions(n=120, seed=2):
    """The same examples, clean and under two shifts."""
    return {
        "clean": make_data(n, seed),
        "large": make_data(n, seed, scale=2.0, shift=1.0),
        "small": make_data(n, seed, scale=0.3, shift=-1.0),
    }


def trained(seed=0, width=8):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2))
    parameters = list(network.parameters())
    for _ in range(3):
        for x, y in make_data(200, 1):
            gradients = torch.autograd.grad(nn.functional.cross_entropy(network(x), y), parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(0.3 * gradient)
    return bln_search.convert(network.eval(), method="same")
