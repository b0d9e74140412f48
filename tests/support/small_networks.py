"""Small networks with a normalization layer, trained on two classes in milliseconds."""

from __future__ import annotations

import torch
from torch import nn


def data(n, seed, shift=0.0):
    """Mini-batches of 20 examples of two classes; `shift` is added to the inputs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    y = (x[:, 0] > 0).long()
    return [(x[start : start + 20] + shift, y[start : start + 20]) for start in range(0, n, 20)]


def trained(seed, make_norm, learning_rate):
    """A trained network with the normalization layer `make_norm()` over 8 features."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, 8), make_norm(), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(network.parameters(), learning_rate)
    for x, y in data(200, 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network
