"""What forward passes change besides their outputs: buffers, attributes of modules, and random generators.

Each row of a table is evaluated as if it ran alone: its passes begin with the state that the network had before the
evaluation, and the network has that state again afterwards.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from bln_search.core.errors import ModelError
from bln_search.norms.normalization_base import NormalizationBase

_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "bln_search"}
"""Packages whose objects are not searched for state, apart from containers, modules and generators."""

_MOST_OBJECTS = 200_000
"""Number of objects that are searched for state."""

_Cell = tuple[Callable[[], bool], Callable[[], object]]
"""Says whether an object is unchanged, and restores it."""


class NetworkState:
    """The state of a network: its buffers, the attributes of its modules, and what these contain.

    Containers, tensors, arrays, generators and objects of a user's own classes are searched. Normalization layers of
    bln-search are left out, as their configuration is not state, and so are the values of parameters. A network with
    lazy layers has no state yet: its first pass creates them.

    Args:
        network: the network.
        with_norms: include the attributes of its normalization layers.
    """

    def __init__(self, network: nn.Module, *, with_norms: bool = False) -> None:
        self._cells: list[_Cell] = []
        seen: dict[int, Any] = {}
        remaining: list[Any] = [] if _is_lazy(network) else [network]
        while remaining and len(seen) < _MOST_OBJECTS:
            value = remaining.pop()
            if value is None or isinstance(value, bool | int | float | str | type) or id(value) in seen:
                continue
            seen[id(value)] = value  # kept alive, so that no other object has its identity
            if with_norms or not isinstance(value, NormalizationBase):
                remaining.extend(self._keep(value))

    @property
    def is_current(self) -> bool:
        """Whether the network still has this state."""
        return all(is_same() for is_same, _ in self._cells)

    def restore(self) -> None:
        """Give the network this state again."""
        for is_same, restore in self._cells:
            if not is_same():
                restore()

    def _keep(self, value: Any) -> Iterable[Any]:
        """Keep what can change in an object; return what it contains."""
        cell: _Cell | None = None
        contents: tuple[Any, ...] = ()
        match value:
            case nn.Parameter():
                pass
            case Tensor():
                cell = _make_tensor_cell(value) if value.layout is torch.strided and not value.is_meta else None
            case np.ndarray():
                cell = _make_array_cell(value)
            case dict():
                cell, contents = _make_dictionary_cell(value), tuple(value.values())
            case list() | deque() | set():
                cell, contents = _make_collection_cell(value), tuple(value)
            case tuple():
                contents = value
            case torch.jit.ScriptModule():
                contents = tuple(value.buffers())
            case _ if isinstance(value, nn.Module) or _is_object_of_user(value):
                cell, contents = _make_attributes_cell(value)
            case _:
                cell = _make_generator_cell(value)
        if cell is not None:
            self._cells.append(cell)
        return contents


class RandomState:
    """The state of the global random generators of torch, NumPy and Python."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
        self._numpy, self._python = np.random.get_state(legacy=False), random.getstate()

    @property
    def is_current(self) -> bool:
        """Whether the generators still have this state."""
        present = RandomState()
        return (
            torch.equal(self._cpu, present._cpu)
            and all(map(torch.equal, self._gpus, present._gpus))
            and self._python == present._python
            and _are_equal(self._numpy, present._numpy)
        )

    def restore(self) -> None:
        """Give the generators this state again."""
        torch.set_rng_state(self._cpu)
        if self._gpus:
            torch.cuda.set_rng_state_all(self._gpus)
        np.random.set_state(self._numpy)
        random.setstate(self._python)


class IsolatedPasses:
    """Runs the passes of several rows over the mini-batches of a split, each row as if it ran alone.

    Args:
        network: in the state in which each row begins.
        random_state: in which each row begins; None for the present one.

    Attributes:
        random_state: in which each row begins.
        changes_state: whether a pass changed the state of the network.
        draws_numbers: whether a pass drew from a global random generator.
    """

    def __init__(self, network: nn.Module, random_state: RandomState | None = None) -> None:
        self._network = network
        self._start, self.random_state = NetworkState(network), random_state or RandomState()
        self._later: dict[Hashable, tuple[NetworkState | None, RandomState]] = {}
        self.changes_state = self.draws_numbers = False

    @contextmanager
    def pass_of_row(self, row: Hashable, *, is_continued: bool = False) -> Iterator[None]:
        """In this context a pass of a row begins with its state; the state before the context is restored.

        Args:
            row: the row.
            is_continued: begin where the last continued pass of this row ended; otherwise at the start.
        """
        outside = RandomState()
        start = None, self.random_state
        network_state, random_state = self._later.get(row, start) if is_continued else start
        if network_state is not None:
            network_state.restore()
        random_state.restore()
        versions = _versions_of_parameters(self._network)
        try:
            yield
            _check_no_parameter_was_written(self._network, versions)
        finally:
            is_changed, is_random = not self._start.is_current, not random_state.is_current
            self.changes_state, self.draws_numbers = self.changes_state or is_changed, self.draws_numbers or is_random
            if is_continued:
                self._later.pop(row, None)
                if is_changed or not self.random_state.is_current:
                    self._later[row] = NetworkState(self._network) if is_changed else None, RandomState()
            if is_changed:
                self._start.restore()
            outside.restore()

    def forget_continued_passes(self, row: Hashable) -> None:
        """Let the next continued pass of a row begin at the start."""
        self._later.pop(row, None)


class OwnRandomNumbers:
    """Draws of passes that neither change those of others, as of a loader, nor depend on them.

    They begin in the present state of the global generators. Passes that draw nothing at first cost nothing later.
    """

    def __init__(self) -> None:
        self._state, self._remaining_trials = RandomState(), 4

    @contextmanager
    def used_here(self) -> Iterator[None]:
        """Draw the next numbers in this context."""
        if not self._remaining_trials:
            yield
            return
        outside = RandomState()
        self._state.restore()
        try:
            yield
        finally:
            is_deterministic, self._state = self._state.is_current, RandomState()
            self._remaining_trials -= is_deterministic
            outside.restore()


@contextmanager
def restored_network(network: nn.Module, *, with_random_state: bool = True) -> Iterator[None]:
    """Restore the state of a network and, if asked, of the global random generators at the end of this context."""
    state, generators = NetworkState(network), RandomState()
    try:
        yield
    finally:
        state.restore()
        if with_random_state:
            generators.restore()


@contextmanager
def untouched_networks(networks: Sequence[nn.Module]) -> Iterator[None]:
    """Restore the state of networks at the end of this context, with the attributes of their normalization layers."""
    states = [NetworkState(network, with_norms=True) for network in networks]
    try:
        yield
    finally:
        for state in states:
            state.restore()


def _make_attributes_cell(value: Any) -> tuple[_Cell, tuple[Any, ...]]:
    """Return a cell for the attributes of an object, and their values.

    `training` is set by those who evaluate, and BLN layers without a mini-batch size are given one.
    """
    attributes = vars(value)
    is_bln = isinstance(value, NormalizationBase) and value.has_batch_statistics and value.has_feature_statistics
    left_out = {"training", "batch_size"} if is_bln else {"training"}
    kept = {name: item for name, item in attributes.items() if name not in left_out}
    empty = [item for item in kept.values() if isinstance(item, dict | set | list) and not item]
    ids_of_empty = set(map(id, empty))

    def is_same() -> bool:
        return (
            len(kept) == len(attributes) - sum(name in attributes for name in left_out)
            and all(attributes.get(name, attributes) is item for name, item in kept.items())
            and not any(empty)
        )

    def restore() -> None:
        for name in [name for name in attributes if name not in kept and name not in left_out]:
            del attributes[name]
        attributes.update(kept)
        for item in empty:
            item.clear()

    return (is_same, restore), tuple(item for item in kept.values() if id(item) not in ids_of_empty)


def _make_dictionary_cell(value: dict[Any, Any]) -> _Cell:
    kept = tuple(value.items())

    def is_same() -> bool:
        return len(value) == len(kept) and all(
            name is old_name and item is old_item
            for (name, item), (old_name, old_item) in zip(value.items(), kept, strict=True)
        )

    def restore() -> None:
        value.clear()
        value.update(kept)

    return is_same, restore


def _make_collection_cell(value: list[Any] | deque[Any] | set[Any]) -> _Cell:
    kept = tuple(value)

    def is_same() -> bool:
        return len(value) == len(kept) and all(item is old for item, old in zip(value, kept, strict=True))

    def restore() -> None:
        value.clear()
        value.update(kept) if isinstance(value, set) else value.extend(kept)

    return is_same, restore


def _make_tensor_cell(value: Tensor) -> _Cell:
    kept = value.detach().clone()

    def is_same() -> bool:
        return value.shape == kept.shape and value.dtype == kept.dtype and _are_equal_tensors(value, kept)

    @torch.no_grad()
    def restore() -> None:
        if value.shape == kept.shape and value.dtype == kept.dtype and not value.is_inference():
            value.copy_(kept)
        else:
            value.data = kept.clone()

    return is_same, restore


def _make_array_cell(value: np.ndarray[Any, Any]) -> _Cell:
    kept = value.copy()
    return lambda: value.tobytes() == kept.tobytes(), lambda: np.copyto(value, kept)


def _make_generator_cell(value: Any) -> _Cell | None:
    """Return a cell for a random generator; None for any other object."""
    get: Callable[[], Any]
    set_state: Any
    match value:
        case torch.Generator():
            get, set_state = value.get_state, value.set_state
        case random.Random():
            get, set_state = value.getstate, value.setstate
        case np.random.Generator():
            bits = value.bit_generator
            get, set_state = lambda: bits.state, lambda state: setattr(bits, "state", state)
        case np.random.RandomState():
            get, set_state = lambda: value.get_state(legacy=False), value.set_state
        case _:
            return None
    kept = get()
    return lambda: _are_equal(get(), kept), lambda: set_state(kept)


def _are_equal_tensors(first: Tensor, second: Tensor) -> bool:
    """Return whether all values are equal, NaN to NaN."""
    first = first.detach()
    return torch.equal(first, second) or bool(((first == second) | ((first != first) & (second != second))).all())  # noqa: PLR0124


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether states of generators are equal."""
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, Mapping):
        return all(_are_equal(first[key], second[key]) for key in first)
    return np.array_equal(first, second) if isinstance(first, np.ndarray) else bool(first == second)


def _is_object_of_user(value: Any) -> bool:
    """Return whether an object has attributes and a class that none of these libraries defines."""
    return type(value).__module__.partition(".")[0] not in _LIBRARIES and hasattr(value, "__dict__")


def _is_lazy(network: nn.Module) -> bool:
    """Return whether a network has parameters or buffers that its first pass creates."""
    return any(map(is_lazy, chain(network.parameters(), network.buffers())))


def _versions_of_parameters(network: nn.Module) -> list[int]:
    """Return numbers that differ where a parameter was written."""
    return [0 if parameter.is_inference() else parameter._version for parameter in network.parameters()]


def _check_no_parameter_was_written(network: nn.Module, versions: Sequence[int]) -> None:
    """Raise ModelError where a pass wrote a parameter, which is not restored; lazy layers are created by the first."""
    now = _versions_of_parameters(network)
    if len(now) == len(versions) and now != versions and not _is_lazy(network):
        names = [name for name, _ in network.named_parameters()]
        written = next(name for name, *pair in zip(names, versions, now, strict=True) if pair[0] != pair[1])
        raise ModelError(
            f"a forward pass in evaluation mode changes the parameter {written}, so rows do not have the same weights: "
            "let it change a buffer, or nothing"
        )
