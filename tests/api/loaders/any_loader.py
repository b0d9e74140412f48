"""Loaders of many kinds over the same examples."""

from __future__ import annotations

from collections import namedtuple
from itertools import cycle, islice

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

SIZE = 20
Batch = namedtuple("Batch", "inputs targets")


def cut(x, y, size=SIZE):
    return list(zip(x.split(size), y.split(size), strict=True))


class Stream(IterableDataset):
    """Examples one after the other, from the start in each iteration."""

    def __init__(self, x, y):
        self.examples = list(zip(x, y, strict=True))

    def __iter__(self):
        return iter(self.examples)


class SharedStream(IterableDataset):
    """Examples of one stream, which all iterations share."""

    def __init__(self, x, y):
        self.stream = iter(list(zip(x, y, strict=True)))

    def __iter__(self):
        return self.stream


class Loader:
    """Is iterated over anew each time."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        yield from self.batches


class IndexedLoader:
    """Has no `__iter__`."""

    def __init__(self, batches):
        self.batches = batches

    def __getitem__(self, index):
        return self.batches[index]


class ReusesBuffers(Loader):
    def __iter__(self):
        x, y = (torch.empty_like(part) for part in self.batches[0])
        for inputs, targets in self.batches:
            yield x[: len(inputs)].copy_(inputs), y[: len(targets)].copy_(targets)
        x.fill_(torch.nan)


class RestartsOnIteration(Loader):
    """Like persistent workers: a second iteration ends the first."""

    def __iter__(self):
        self.position = 0
        while self.position < len(self.batches):
            self.position += 1
            yield self.batches[self.position - 1]


class Backwards(Sampler):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n - 1, -1, -1))

    def __len__(self):
        return self.n


class InSteps(Sampler):
    """Indices of mini-batches that take every sixth example."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return (list(range(start, self.n, 6)) for start in range(6))

    def __len__(self):
        return 6


class PreBatched(Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


READ_AGAIN = {
    "a list": cut,
    "a tuple": lambda x, y: tuple(cut(x, y)),
    "a data loader": lambda x, y: DataLoader(TensorDataset(x, y), SIZE),
    "a shuffled data loader": lambda x, y: DataLoader(TensorDataset(x, y), SIZE, shuffle=True),
    "a shuffled data loader with a generator": lambda x, y: DataLoader(
        TensorDataset(x, y), SIZE, shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "a data loader over a stream": lambda x, y: DataLoader(Stream(x, y), SIZE),
    "a custom sampler": lambda x, y: DataLoader(TensorDataset(x, y), SIZE, sampler=Backwards(len(x))),
    "a custom batch sampler": lambda x, y: DataLoader(TensorDataset(x, y), batch_sampler=InSteps(len(x))),
    "a data set of mini-batches": lambda x, y: DataLoader(PreBatched(cut(x, y)), batch_size=None),
    "an own class": lambda x, y: Loader(cut(x, y)),
    "an own class with indices": lambda x, y: IndexedLoader(cut(x, y)),
    "one that reuses its buffers": lambda x, y: ReusesBuffers(cut(x, y)),
    "one that restarts on iteration": lambda x, y: RestartsOnIteration(cut(x, y)),
    "dictionaries": lambda x, y: [{"input": a, "labels": b} for a, b in cut(x, y)],
    "lists": lambda x, y: [[a, b] for a, b in cut(x, y)],
    "namedtuples": lambda x, y: [Batch(a, b) for a, b in cut(x, y)],
    "a smaller last mini-batch": lambda x, y: DataLoader(TensorDataset(x, y), 25),
    "a last mini-batch of one": lambda x, y: DataLoader(TensorDataset(x, y), 17),
}
"""Loaders that can be read again; 17 and 25 do not divide 120."""

READ_ONCE = {
    "a generator": lambda x, y: (batch for batch in cut(x, y)),
    "an iterator of a list": lambda x, y: iter(cut(x, y)),
    "an iterator of a data loader": lambda x, y: iter(DataLoader(TensorDataset(x, y), SIZE)),
    "an endless iterator with a limit": lambda x, y: islice(cycle(cut(x, y)), 6),
}


def raises_in_the_middle(x, y):
    class Broken(Loader):
        def __iter__(self):
            yield from self.batches[:3]
            raise OSError("the disk is gone")

    return Broken(cut(x, y))


REFUSED = {
    "an empty list": (lambda x, y: [], "yields no mini-batch"),
    "an empty stream": (lambda x, y: DataLoader(Stream(x[:0], y[:0]), SIZE), "yields no mini-batch"),
    "a loader that raises": (raises_in_the_middle, r"mini-batch 3 .*OSError: the disk is gone"),
    "arrays": (lambda x, y: [(a.numpy(), b.numpy()) for a, b in cut(x, y)], "ndarray|that are tensors"),
    "a data set": (TensorDataset, "single examples"),
    "a number": (lambda x, y: 3, "type int"),
}
