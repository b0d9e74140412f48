"""The state of a network that forward passes may change: buffers, attributes of modules, and what these contain."""

from __future__ import annotations

import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from bln_search.norms.normalization_base import NormalizationBase

_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "bln_search", "lightning", "pytorch_lightning"}
"""Packages whose objects are not searched for state, apart from containers, modules and generators."""

_MOST_OBJECTS = 200_000
"""Number of objects that are searched for state."""

_Cell = tuple[Callable[[], bool], Callable[[], object]]
"""Says whether an object is unchanged, and restores it."""


class NetworkState:
    """The state of a network: its buffers, the attributes of its modules, and what these contain.

    Containers, tensors, arrays, generators and objects of a user's own classes are searched, buffers and attributes of
    modules first. Of normalization layers of bln-search only moving statistics are kept, as their configuration is not
    state; the values of parameters are left out. A network with lazy layers has no state yet: its first pass creates
    them. Warns (UserWarning) where there are more objects than are searched.

    Args:
        network: the network.
        with_norms: include the attributes of its normalization layers.
    """

    def __init__(self, network: nn.Module, *, with_norms: bool = False) -> None:
        self._cells: list[_Cell] = []
        seen: dict[int, Any] = {}
        remaining: deque[Any] = deque()
        if not is_lazy_network(network):
            modules = [each for each in network.modules() if with_norms or not isinstance(each, NormalizationBase)]
            remaining.extend([network, *modules, *(x for module in modules for x in module.buffers(recurse=False))])
            self._cells.extend(map(_make_stream_cell, _iter_norms(network)))
        while remaining:
            value = remaining.popleft()
            if value is None or isinstance(value, bool | int | float | str | type) or id(value) in seen:
                continue
            if len(seen) >= _MOST_OBJECTS:
                warnings.warn(
                    f"the attributes of this {type(network).__name__} contain more than {_MOST_OBJECTS:,} objects; "
                    "what forward passes change in the others is not restored: keep large tables in arrays or tensors, "
                    "or outside of the network",
                    stacklevel=2,
                )
                break
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


def _iter_norms(network: nn.Module) -> Iterator[NormalizationBase]:
    return (module for module in network.modules() if isinstance(module, NormalizationBase))


def _make_stream_cell(layer: NormalizationBase) -> _Cell:
    """Return a cell for the moving statistics of a layer, which are replaced, never written."""
    kept = layer.moving_values
    return lambda: layer.moving_values is kept, lambda: setattr(layer, "moving_values", kept)


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
    return lambda: are_equal_states(get(), kept), lambda: set_state(kept)


def _are_equal_tensors(first: Tensor, second: Tensor) -> bool:
    """Return whether all values are equal, NaN to NaN."""
    first = first.detach()
    return torch.equal(first, second) or bool(((first == second) | ((first != first) & (second != second))).all())  # noqa: PLR0124


def are_equal_states(first: Any, second: Any) -> bool:
    """Return whether states of generators are equal."""
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, Mapping):
        return all(are_equal_states(first[key], second[key]) for key in first)
    return np.array_equal(first, second) if isinstance(first, np.ndarray) else bool(first == second)


def _is_object_of_user(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] not in _LIBRARIES and hasattr(value, "__dict__")


def is_lazy_network(network: nn.Module) -> bool:
    """Return whether a network has parameters or buffers that its first pass creates."""
    return any(map(is_lazy, chain(network.parameters(), network.buffers())))
