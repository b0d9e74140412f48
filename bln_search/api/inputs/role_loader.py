"""Loaders in their roles: population, validation, test. Each is read from start to end, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from bln_search.api.inputs.sample_batch import read_sample_batch
from bln_search.core.errors import BlnSearchError, DataError

Loader = Iterable[Any]
"""Yields mini-batches, for instance a `DataLoader`."""


class RoleLoader:
    """A loader in one role. Every iteration reads it from start to end; no iteration is open between two of them.

    Args:
        loader: The loader.
        name: The argument that gave it, for messages.

    Attributes:
        sample_batch: One of its mini-batches, for checks before any pass; None where reading one could change what is
            read later, as of a stream.
        examples_of_first_reading: Fingerprints of the examples in the order of the first of several readings.
        targets_of_first_reading: Fingerprints of their targets in the same order.
        num_examples: Number of examples of the first complete reading; None before it.
        compares_readings: Whether every reading must have this number of examples.

    Raises:
        DataError: It is no loader, or one of known length 0.
    """

    def __init__(self, loader: Loader, name: str) -> None:
        self.loader, self.name = loader, name
        check_is_loader(loader, name)
        self.sample_batch = read_sample_batch(loader)
        self.examples_of_first_reading: NDArray[np.uint64] | None = None
        self.targets_of_first_reading: NDArray[np.uint64] | None = None
        self.num_examples: int | None = None
        self.compares_readings = False
        self._was_read = False

    def record_reading(self, examples: int) -> None:
        """Note the number of examples of a complete reading.

        Raises:
            DataError: It differs from that of the first reading, and readings are compared.
        """
        if self.num_examples is None:
            self.num_examples = examples
        elif self.compares_readings and examples != self.num_examples:
            raise DataError(
                f"{self.name} yields {examples} examples for one network and {self.num_examples} for another: networks "
                "are compared on the same examples; give a loader that yields all of them in every iteration, or a list"
            )

    def count_batches(self) -> int | None:
        """The number of mini-batches; None where it is unknown."""
        try:
            return len(self.loader)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):
            return None

    def __iter__(self) -> Iterator[Any]:
        """Yield the mini-batches.

        Raises:
            DataError: There are none, or the loader raises an error.
        """
        number = 0
        for batch in self._iter_naming_errors():
            yield batch
            number += 1
        if number == 0:
            raise DataError(f"{self.name} yields no mini-batch{self._describe_spent_loader()}")
        self._was_read = True

    def _iter_naming_errors(self) -> Iterator[Any]:
        """Yield the mini-batches; an error of the loader names the mini-batch that it should have yielded."""
        number, iterator = 0, None
        try:
            iterator = iter(self.loader)
            while True:
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
                yield batch
                number += 1
        except (BlnSearchError, torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            raise DataError(
                f"{self.name} raised an error where mini-batch {number} (counted from 0) should come: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _describe_spent_loader(self) -> str:
        """Why a loader may yield nothing."""
        if is_iterator(self.loader):
            return ": it is an iterator, which can be read once, and was read before"
        if self._was_read:
            return " when it is read again: give a torch.utils.data.DataLoader or a list of mini-batches"
        return ": it may read a stream that another loader has read already"


def check_is_loader(loader: object, name: str) -> None:
    """Raise DataError for an object that cannot yield mini-batches, or that is known to yield none."""
    is_data_set = isinstance(loader, Dataset) and not isinstance(loader, IterableDataset)
    if isinstance(loader, Tensor) or is_data_set:
        raise DataError(
            f"{name} is a {type(loader).__name__}, which yields single examples: put the data set into a "
            "torch.utils.data.DataLoader"
        )
    if isinstance(loader, list | tuple | DataLoader) and not isinstance(
        getattr(loader, "dataset", None), IterableDataset
    ):
        if not _has_batches(loader):
            raise DataError(f"{name} yields no mini-batch")
    elif not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise DataError(
            f"{name} has the type {type(loader).__name__}: it must yield mini-batches, as a "
            "torch.utils.data.DataLoader does"
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

    Args:
        loaders: Each loader with the argument that gave it.
        readers: Who reads every loader several times, for the message; None where each is read once.
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
