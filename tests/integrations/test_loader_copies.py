"""Copies of loaders yield what the loaders would, and leave them where they are."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, RandomSampler, Sampler, Subset, TensorDataset

from bln_search.integrations.loader_copies import LimitedLoader, copy_loader
from tests.integrations.small_trainings import Points, Stream


class Countdown(Sampler):
    """A sampler that begins one index later in every iteration."""

    def __init__(self, size):
        self.size, self.start = size, 0

    def __iter__(self):
        self.start += 1
        return iter(range(self.start, self.size))


class Locked(Countdown):
    """A sampler that cannot be copied."""

    def __init__(self, size):
        super().__init__(size)
        self.lock = threading.Lock()


def inputs_of(loader):
    torch.manual_seed(3)
    np.random.seed(3)
    return torch.cat([x for x, _ in loader])


def make(kind):
    torch.manual_seed(4)
    np.random.seed(4)
    points, generator = Points(20, 1, noise=1.0), torch.Generator().manual_seed(5)
    match kind:
        case "shuffled":
            return DataLoader(points, 5, shuffle=True, generator=generator)
        case "sampler":
            return DataLoader(points, 5, sampler=Countdown(20))
        case "batch sampler":
            return DataLoader(points, batch_sampler=BatchSampler(RandomSampler(points, generator=generator), 5, False))
        case "without mini-batches":
            return DataLoader([points[0], points[1]], batch_size=None)
        case "stream":
            return DataLoader(Stream(points, 15), 5)
        case "parts":
            return DataLoader(ConcatDataset([Subset(points, range(9)), Points(6, 2)]), 5)


@pytest.mark.parametrize("kind", ["shuffled", "sampler", "batch sampler", "without mini-batches", "stream", "parts"])
def test_a_copy_yields_what_the_loader_yields_next(kind):
    plain, copied = make(kind), make(kind)
    for _ in range(2):
        expected = inputs_of(plain)
        for _ in range(2):
            assert torch.equal(inputs_of(copy_loader(copied)), expected)
        assert torch.equal(inputs_of(copied), expected)


def test_a_copy_leaves_persistent_workers_to_the_loader():
    options = {"num_workers": 1, "persistent_workers": True, "generator": torch.Generator()}
    loader = DataLoader(Points(20, 1, noise=1.0), 5, shuffle=True, **options)
    workers = iter(loader)
    assert torch.cat([x for x, _ in copy_loader(loader)]).shape == (20, 6)
    assert loader._iterator is workers
    assert len(list(workers)) == 4


def test_a_copy_shares_the_data():
    data = TensorDataset(torch.zeros(8, 3), torch.zeros(8))
    loader = DataLoader(Subset(data, range(4)), 2, shuffle=True)
    copied = copy_loader(loader)
    assert copied.dataset is loader.dataset
    assert copied.sampler.data_source is loader.dataset
    assert copied.batch_sampler.sampler is copied.sampler
    assert len(copied) == len(loader)


def test_a_sampler_that_cannot_be_copied_is_shared():
    loader = DataLoader(Points(20, 1), 5, sampler=Locked(20))
    assert copy_loader(loader).sampler is loader.sampler


def test_other_loaders_are_returned_themselves():
    loader = [(torch.zeros(2, 3), torch.zeros(2))]
    assert copy_loader(loader) is loader


def test_a_limited_loader_prepares_the_first_mini_batches():
    loader = LimitedLoader([1, 2, 3], 2, lambda batch: 10 * batch)
    assert list(loader) == list(loader) == [10, 20]
    assert len(loader) == 2
    assert len(LimitedLoader([1, 2, 3], None)) == 3
    with pytest.raises(TypeError):
        len(LimitedLoader(iter([1, 2]), None))
