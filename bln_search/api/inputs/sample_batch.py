"""A mini-batch of a loader for checks before any pass, where reading one changes nothing that is read later."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils import data

_STATELESS_SAMPLERS = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.WeightedRandomSampler,
    data.DistributedSampler,
)
"""Samplers whose indices depend on nothing but random numbers."""


def read_sample_batch(loader: object) -> Any:
    """Return a mini-batch of a list, or of a `DataLoader` over a data set with indices and without worker processes.

    None for every other loader: it may be a stream, or its worker processes may be busy. None also if the mini-batch
    cannot be read; the error then comes with the reading of the loader.
    """
    if isinstance(loader, list | tuple):
        return loader[0] if loader else None
    if not isinstance(loader, data.DataLoader) or not _has_indices_without_state(loader):
        return None
    try:
        with _unchanged_random_generators(loader):
            return _fetch_first_batch(loader)
    except Exception:  # noqa: BLE001 - whatever the data set of a user raises
        return None


def _has_indices_without_state(loader: data.DataLoader[Any]) -> bool:
    """Whether the loader reads the examples of indices in this process, which torch's own samplers choose."""
    batch_sampler = loader.batch_sampler
    return (
        type(loader).__iter__ is data.DataLoader.__iter__
        and loader.num_workers == 0
        and not isinstance(loader.dataset, data.IterableDataset)
        and type(loader.sampler) in _STATELESS_SAMPLERS
        and (batch_sampler is None or type(batch_sampler) is data.BatchSampler)
    )


def _fetch_first_batch(loader: data.DataLoader[Any]) -> Any:
    """Return the first mini-batch as the loader makes it."""
    dataset: Any = loader.dataset
    if loader.batch_sampler is None:
        return loader.collate_fn(dataset[next(iter(loader.sampler))])
    indices = next(iter(loader.batch_sampler))
    fetch_all = getattr(dataset, "__getitems__", None)
    return loader.collate_fn(fetch_all(indices) if fetch_all else [dataset[index] for index in indices])


@contextmanager
def _unchanged_random_generators(loader: data.DataLoader[Any]) -> Iterator[None]:
    """Restore the random generators of this process and of the loader, on which order and augmentation depend."""
    owners = (loader, loader.sampler, loader.batch_sampler)
    own = {id(g): g for g in (getattr(owner, "generator", None) for owner in owners) if g is not None}
    states = [(generator, generator.get_state()) for generator in own.values()]
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for generator, state in states:
            generator.set_state(state)
