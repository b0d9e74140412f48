"""Small trained networks with batch normalization, and loaders of synthetic data."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(examples=900, features=10, seed=0):
    """Inputs and classes of a task that a small network learns well."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, features, generator=generator)
    return inputs, ((inputs[:, 0] > inputs[:, 1]).long() + (inputs[:, 2] > 0.5).long())


def loaders(training=32, validation=30, change=None):
    """Training loader over 600 examples, validation loader over 300."""
    inputs, classes = make_data()
    later = inputs[600:] if change is None else change(inputs[600:])
    return (
        DataLoader(TensorDataset(inputs[:600], classes[:600]), training, drop_last=True),
        DataLoader(TensorDataset(later, classes[600:]), validation),
    )


def make_network(dropout=0.0, **norm):
    """Two hidden layers of 16 with BatchNorm."""
    torch.manual_seed(0)
    parts = [nn.Linear(10, 16), nn.BatchNorm1d(16, **norm), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*parts, nn.Linear(16, 16), nn.BatchNorm1d(16, **norm), nn.ReLU(), nn.Linear(16, 3))


def train(network, epochs=8, batch_size=32, rate=0.05, seed=0):
    """Train with SGD, and return the network in evaluation mode."""
    inputs, classes = make_data()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    network.train()
    for _ in range(epochs):
        for rows in torch.randperm(600, generator=generator).split(batch_size):
            if len(rows) == batch_size:
                loss = nn.functional.cross_entropy(network(inputs[rows]), classes[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return network.eval()
