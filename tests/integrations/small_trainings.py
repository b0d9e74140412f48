"""Data and networks of small trainings, for tests of the callbacks for trainers."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.docs.pages import PAGES, blocks, written


class Points(Dataset):
    """Two classes of points, with noise from the generators of torch, NumPy and the data set itself."""

    def __init__(self, examples, seed, noise=0.0):
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(examples, 6, generator=generator)
        self.y = (self.x[:, 0] > self.x[:, 1]).long()
        self.noise, self.generator = noise, np.random.default_rng(seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if not self.noise:
            return self.x[index], self.y[index]
        drawn = torch.randn(6) + float(np.random.randn()) + float(self.generator.standard_normal())
        return self.x[index] + self.noise * drawn, self.y[index]


class Stream(IterableDataset):
    """The same points one after the other; a stream continues where the last reading ended."""

    def __init__(self, points, length=None):
        self.points, self.length, self.position = points, length, 0

    def __iter__(self):
        for _ in range(self.length or 10**9):
            self.position += 1
            yield self.points[self.position % len(self.points)]


def make_loaders(noise=0.1, **options):
    """Loaders of 60 training and 40 validation points."""
    training = DataLoader(Points(60, 1, noise), batch_size=10, shuffle=True, **options)
    return training, DataLoader(Points(40, 2), batch_size=10, **options)


def make_network():
    """A network with a BatchNorm layer and dropout."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))


def random_numbers():
    """The next numbers of the global generators."""
    return torch.rand(()).item(), float(np.random.rand())


def are_equal(first, second):
    """Whether nested states are equal, tensors bit for bit."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(are_equal(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(are_equal, first, second))
    return first == second


def code_of_section(heading):
    """The only Python block of a section of the page of integrations, which has at most ten lines."""
    section = written(PAGES["integrations.md"]).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = [block for block in blocks(PAGES["integrations.md"], "python") if block.text in section]
    assert len(block.text.splitlines()) <= 10
    return block.text
