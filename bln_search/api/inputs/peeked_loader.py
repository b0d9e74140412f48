"""Loaders whose first mini-batches are read before an evaluation, and checks of loaders that can be read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bln_search.core.errors import DataError
from bln_search.data.inputs import make_structured_inputs

Loader = Iterable[Any]
"""Yields mini-batches, for instance a `DataLoader`."""

_END = object()


class PeekedLoader:
    """A loader whose first mini-batches were read; its first iteration continues behind them, later ones start anew.

    Args:
        loader: The loader.
        name: The argument that gave it, for messages.

    Raises:
        DataError: The loader is not iterable, or yields nothing.
    """

    def __init__(self, loader: Loader, name: str) -> None:
        self.loader, self.name = loader, name
        self._iterator: Iterator[Any] | None = start_loader_iteration(loader, name)
        first = next(self._iterator, _END)
        if first is _END:
            spent = ": it is an iterator, which can be read once, and was read before" if is_iterator(loader) else ""
            raise DataError(f"{name} yields no mini-batch{spent}")
        self._read = [first]

    @property
    def first_batch(self) -> Any:
        """The first mini-batch, until the first iteration begins."""
        return self._read[0]

    def count_examples_until_enough(self, enough: int, count: Callable[[Any], int]) -> int:
        """Read mini-batches until they have enough examples; return how many examples those that were read have.

        Args:
            enough: The number of examples.
            count: Returns the number of examples of a mini-batch.
        """
        assert self._iterator is not None, "it is called before the first iteration"
        examples = count(self.first_batch)
        while examples < enough:
            self._read[-1] = _copy_batch(self._read[-1])  # because a loader may reuse its tensors
            batch = next(self._iterator, _END)
            if batch is _END:
                break
            examples += count(batch)
            self._read.append(batch)
        return examples

    def __iter__(self) -> Iterator[Any]:
        """Yield the mini-batches. Raises DataError if there are none in a later iteration."""
        if self._iterator is None:
            batches = start_loader_iteration(self.loader, self.name)
            first = next(batches, _END)
            if first is _END:
                raise DataError(
                    f"{self.name} yields no mini-batch when it is read again, for another network: give a "
                    "torch.utils.data.DataLoader or a list of mini-batches"
                )
            yield first
            yield from batches
            return
        iterator, read = self._iterator, self._read
        self._iterator, self._read = None, []
        while read:
            yield read.pop(0)
        yield from iterator


def start_loader_iteration(loader: object, name: str) -> Iterator[Any]:
    """Iterate over a loader. Raises DataError where that is not possible."""
    try:
        return iter(loader)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise DataError(
            f"{name} has the type {type(loader).__name__}: it must yield mini-batches, as a "
            "torch.utils.data.DataLoader does"
        ) from None


def is_iterator(loader: object) -> bool:
    """Whether a loader is an iterator, as a generator is, which can be read once."""
    return isinstance(loader, Iterator)


def check_iterators_read_once(loaders: Iterable[tuple[str, object]], *, networks: int = 1) -> None:
    """Raise DataError if an iterator would be read more than once.

    Args:
        loaders: Each loader with the argument that gave it.
        networks: The number of networks, each of which reads every loader.
    """
    arguments: dict[int, str] = {}
    for name, loader in loaders:
        if not is_iterator(loader):
            continue
        kind = type(loader).__name__
        remedy = "give a torch.utils.data.DataLoader or a list of mini-batches"
        if networks > 1:
            raise DataError(f"{name} is a {kind}, which can be read once, and {networks} networks read it: {remedy}")
        other = arguments.setdefault(id(loader), name)
        if other != name:
            raise DataError(f"{other} and {name} are the same {kind}, which can be read once: {remedy}")


def _copy_batch(batch: Any) -> Any:
    return make_structured_inputs(batch).clone().build_structure()
