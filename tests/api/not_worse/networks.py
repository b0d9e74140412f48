"""Small networks and data with known differences."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 3


class Shifted(nn.Module):
    """Logits of a linear network; those of the right class are lowered by a number that the inputs carry."""

    def __init__(self, factor=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, CLASSES)
        self.factor = factor

    def forward(self, x):
        logits = self.linear(x[:, :4])
        return logits - self.factor * nn.functional.one_hot(logits.argmax(1), CLASSES)


def make_data(examples=600, seed=0):
    """Inputs (n, 4) and the classes that `Shifted(0)` predicts for most of them."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, 4, generator=generator)
    targets = Shifted()(inputs).argmax(1)
    noise = torch.randint(CLASSES, (examples,), generator=generator)
    return inputs, torch.where(torch.rand(examples, generator=generator) < 0.1, noise, targets)


def make_loader(examples=600, seed=0, batch_size=20, *, shuffle=False):
    return DataLoader(TensorDataset(*make_data(examples, seed)), batch_size, shuffle=shuffle)


def losses_of(network, inputs, targets):
    """Losses in double precision by a plain loop."""
    losses = []
    with torch.no_grad():
        for logits, target in zip(network(inputs).double(), targets, strict=True):
            losses.append(float(logits.exp().sum().log() - logits[target]))
    return torch.tensor(losses, dtype=torch.float64).numpy()
