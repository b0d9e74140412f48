"""Loaders in their roles: population, validation, test. Each is read from start to end, one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import data

from bln_search.api.inputs.example_order import Fingerprints, fingerprint_examples, reorder_evaluations
from bln_search.core.errors import BlnSearchError, DataError
from bln_search.core.records import Evaluation
from bln_search.data.inputs import Inputs

Loader = Iterable[Any]
"""Yields mini-batches, for instance a `DataLoader`."""

_STATELESS_SAMPLERS = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.WeightedRandomSampler,
    data.DistributedSampler,
)
"""Samplers whose indices depend on nothing but random numbers."""


class RoleLoader:
    """A loader in one role. Every iteration reads it from start to end; no iteration is open between two of them.

    Args:
        loader: The loader.
        name: The argument that gave it, for messages.
        compares_readings: Each of several networks reads it, and outcomes are joined example by example.
        compares_targets: Its examples are found again in other conditions by their targets.

    Attributes:
        sample_batch: One of its mini-batches, for checks before any pass; None where reading one could change what is
            read later, as of a stream.
        num_examples: Number of examples of the first complete reading; None before it.
        targets_of_first_reading: Fingerprints of their targets, in their order; None where these are not compared.

    Raises:
        DataError: It is no loader, or one of known length 0.
    """

    def __init__(
        self, loader: Loader, name: str, *, compares_readings: bool = False, compares_targets: bool = False
    ) -> None:
        self.loader, self.name = loader, name
        check_is_loader(loader, name)
        self.sample_batch = _read_sample_batch(loader)
        self.num_examples: int | None = None
        self.targets_of_first_reading: Fingerprints | None = None
        self._compares_readings, self._compares_targets = compares_readings, compares_targets
        self._examples: list[Fingerprints] = []
        self._targets: list[Fingerprints] = []
        self._examples_of_first_reading: Fingerprints | None = None
        self._was_read = False

    def start_reading(self) -> None:
        """Forget the order of the last reading."""
        self._examples, self._targets = [], []

    def record_examples(self, inputs: Inputs, targets: Tensor, position: int) -> None:
        """Note the order of the examples of a mini-batch. position: the number of examples before it."""
        if self._compares_readings:
            self._examples.append(fingerprint_examples(inputs, targets, position))
        if self._compares_targets:
            self._targets.append(fingerprint_examples(targets, targets))

    def end_reading(self, examples: int) -> None:
        """Note the number of examples of a complete reading.

        Raises:
            DataError: It differs from that of the first reading, and readings are compared.
        """
        if self.num_examples is None:
            self.num_examples = examples
            self.targets_of_first_reading = np.concatenate(self._targets) if self._targets else None
        elif self._compares_readings and examples != self.num_examples:
            raise DataError(
                f"{self.name} yields {examples} examples for one network and {self.num_examples} for another: networks "
                "are compared on the same examples; give a loader that yields all of them in every iteration, or a list"
            )

    def reorder_as_first_reading(self, evaluations: list[Evaluation]) -> list[Evaluation]:
        """The evaluations of the last reading with their outcomes in the order of the first one.

        Raises:
            DataError: The readings have other examples.
        """
        if not self._compares_readings:
            return evaluations
        read = np.concatenate(self._examples)
        if self._examples_of_first_reading is None:
            self._examples_of_first_reading = read
        return reorder_evaluations(evaluations, read, self._examples_of_first_reading, self.name)

    def count_batches(self) -> int | None:
        """The number of mini-batches; None where it is unknown."""
        try:
            return len(self.loader)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):
            return None

    def count_dataset(self) -> int | None:
        """The number of examples of the loader's data set; None where it is unknown."""
        try:
            return len(self.loader.dataset)  # type: ignore[attr-defined]
        except (AttributeError, TypeError, NotImplementedError):
            return None

    def __iter__(self) -> Iterator[Any]:
        """Yield the mini-batches.

        Raises:
            DataError: There are none, or the loader raises an error; the message names the mini-batch.
        """
        number = 0
        try:
            iterator = iter(self.loader)
            while True:
                try:
                    batch = next(iterator)
                except StopIteration:
                    break
                yield batch
                number += 1
        except (BlnSearchError, torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            raise DataError(
                f"{self.name} raised an error where mini-batch {number} (counted from 0) should come: "
                f"{type(error).__name__}: {error}"
            ) from error
        if number == 0:
            raise DataError(f"{self.name} yields no mini-batch{self._describe_spent_loader()}")
        self._was_read = True

    def _describe_spent_loader(self) -> str:
        """Why a loader may yield nothing."""
        if is_iterator(self.loader):
            return ": it is an iterator, which can be read once, and was read before"
        if self._was_read:
            return " when it is read again: give a torch.utils.data.DataLoader or a list of mini-batches"
        return ": it may read a stream that another loader has read already"


def check_is_loader(loader: object, name: str) -> None:
    """Raise DataError for an object that cannot yield mini-batches, or that is known to yield none."""
    is_data_set = isinstance(loader, data.Dataset) and not isinstance(loader, data.IterableDataset)
    if isinstance(loader, Tensor) or is_data_set:
        raise DataError(
            f"{name} is a {type(loader).__name__}, which yields single examples: put the data set into a "
            "torch.utils.data.DataLoader"
        )
    if _is_pair_of_whole_data(loader):
        raise DataError(
            f"{name} is a pair of tensors: make mini-batches of it, as in "
            "torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=25)"
        )
    if isinstance(loader, list | tuple | data.DataLoader) and not isinstance(
        getattr(loader, "dataset", None), data.IterableDataset
    ):
        if not _has_batches(loader):
            raise DataError(f"{name} yields no mini-batch")
    elif not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise DataError(
            f"{name} has the type {type(loader).__name__}: it must yield mini-batches, as a "
            "torch.utils.data.DataLoader does"
        )


def _is_pair_of_whole_data(loader: object) -> bool:
    """Whether it is inputs and targets of equal length instead of mini-batches."""
    if not isinstance(loader, list | tuple) or len(loader) != 2:
        return False
    first, second = loader
    return (
        isinstance(first, Tensor)
        and isinstance(second, Tensor)
        and first.ndim > second.ndim > 0
        and len(first) == len(second)
    )


def _has_batches(loader: Sized) -> bool:
    """Whether a loader has mini-batches, as far as its length is known."""
    try:
        return len(loader) > 0
    except TypeError:  # of a sampler without a length
        return True


def is_iterator(loader: object) -> bool:
    """Whether a loader is an iterator, as a generator is, which can be read once."""
    return isinstance(loader, Iterator)


def check_iterators_read_once(loaders: Iterable[tuple[str, object]], *, readers: str | None = None) -> None:
    """Raise DataError if an iterator would be read more than once.

    `loaders` has each loader with the argument that gave it. `readers` says who reads every loader several times; None
    where each is read once.
    """
    arguments: dict[int, str] = {}
    for name, loader in loaders:
        if not is_iterator(loader):
            continue
        kind = type(loader).__name__
        remedy = "give a torch.utils.data.DataLoader or a list of mini-batches"
        if readers is not None:
            raise DataError(f"{name} is a {kind}, which can be read once, and {readers}: {remedy}")
        other = arguments.setdefault(id(loader), name)
        if other != name:
            raise DataError(f"{other} and {name} are the same {kind}, which can be read once: {remedy}")


def _read_sample_batch(loader: object) -> Any:
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
