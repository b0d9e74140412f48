"""Copies of loaders, which are read between epochs without moving the loaders of the training."""

from __future__ import annotations

import copy
import operator
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils import data

from bln_search.api.inputs.loaders import Loader

_GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)


def copy_loader(loader: Loader) -> Loader:
    """A loader that yields what `loader` would yield next, and does not change what that one yields.

    A copy of a `DataLoader` has samplers, random generators and worker processes of its own, which begin anew. The data
    set is the same object; one that is an `IterableDataset`, or has a random generator as an attribute, is copied
    without its data. Of a loader that accelerate prepared, the loader inside is copied: an iteration of the outer one
    changes the state of gradient accumulation. Any other loader is returned itself.
    """
    loader = getattr(loader, "base_dataloader", loader)
    if not isinstance(loader, data.DataLoader):
        return loader
    copied = copy.copy(loader)
    dataset = _copy_state_of_data_set(loader.dataset)
    memo = {id(loader.dataset): dataset}  # samplers refer to the data set, which deepcopy would copy
    own: dict[str, Any] = {"dataset": dataset, "_iterator": None}
    with suppress(Exception):  # what a sampler of a user contains may not be copyable
        own |= copy.deepcopy({name: vars(loader)[name] for name in ("sampler", "batch_sampler", "generator")}, memo)
    vars(copied).update(own)  # attributes of a DataLoader cannot be assigned
    return copied


def _copy_state_of_data_set(dataset: Any) -> Any:
    """A copy of a data set whose readings change nothing in it, as far as attributes tell; itself if none changes."""
    attributes = getattr(dataset, "__dict__", {})
    own = {name: copied for name, value in attributes.items() if (copied := _copy_state(value)) is not value}
    if not own and not isinstance(dataset, data.IterableDataset):
        return dataset
    with suppress(Exception):  # whatever the class of a user does when it is copied
        result = copy.copy(dataset)
        vars(result).update(own)
        return result
    return dataset


def _copy_state(value: Any) -> Any:
    """Copies of a generator and of inner data sets, as a `Subset` has; the value itself for all else."""
    if isinstance(value, _GENERATORS):
        return copy.deepcopy(value)
    if isinstance(value, data.Dataset):
        return _copy_state_of_data_set(value)
    if isinstance(value, list) and value and all(isinstance(each, data.Dataset) for each in value):
        copies = [_copy_state_of_data_set(each) for each in value]
        return copies if any(map(operator.is_not, copies, value)) else value
    return value


def read_first_batch(loader: Loader) -> Any:
    """A mini-batch of a loader, read in this process; None where reading one could change what is read later."""
    if isinstance(loader, LimitedLoader):
        return loader.read_first_batch()
    if isinstance(loader, list | tuple):
        return loader[0] if loader else None
    copied: Any = copy_loader(loader)
    if not isinstance(copied, data.DataLoader) or isinstance(copied.dataset, data.IterableDataset):
        return None
    vars(copied).update(num_workers=0, timeout=0)
    with suppress(Exception):  # an error comes with the reading of the loader
        return next(iter(copied))
    return None


class LimitedLoader:
    """The first mini-batches of a loader, each prepared by a function.

    Args:
        loader: The loader.
        limit: Largest number of mini-batches; None for all.
        prepare: Returns a mini-batch as the network takes it; None for the mini-batch itself.
    """

    def __init__(self, loader: Loader, limit: int | None, prepare: Callable[[Any], Any] | None = None) -> None:
        self._loader, self._limit, self._prepare = loader, limit, prepare

    def __iter__(self) -> Iterator[Any]:
        """Yield the mini-batches."""
        batches = islice(iter(self._loader), self._limit)
        return batches if self._prepare is None else map(self._prepare, batches)

    def read_first_batch(self) -> Any:
        """The first mini-batch, as of `read_first_batch`."""
        batch = read_first_batch(self._loader)
        return batch if batch is None or self._prepare is None else self._prepare(batch)

    def __len__(self) -> int:
        """The number of mini-batches. Raises TypeError if the loader has none."""
        length = len(self._loader)  # type: ignore[arg-type]
        return length if self._limit is None else min(length, self._limit)
