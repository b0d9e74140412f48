"""Tensors of examples that know under how many configurations they stand.

The one-pass evaluation marks a network's input. The mark follows every operation: the first normalization layer turns
N examples into K·N (the K rows of the plan, one behind the other on the first axis), later layers see nothing but more
examples, and where both kinds meet (a residual connection around the first normalization layer) the unfanned one is
repeated. What computes on examples independently needs no change.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.base import NormalizationBase
from bln_search.norms.statistics import LayerPopulation

LayerPopulations = Mapping[PopulationEstimate, LayerPopulation]
Populations = Mapping[NormalizationBase, LayerPopulations]


@dataclass(frozen=True, order=True)
class Row:
    """One configuration under one population estimate (None where it reads no population value)."""

    configuration: InferenceConfiguration
    estimate: PopulationEstimate | None

    @property
    def label(self) -> str:
        """As a message names it."""
        return " ".join(str(part) for part in (self.configuration, self.estimate) if part)


@dataclass(frozen=True)
class EnumerationPlan:
    """The rows that one pass evaluates, and each layer's population values under each estimate.

    `prepared` keeps what a layer works out once for all mini-batches.
    """

    rows: tuple[Row, ...]
    populations: Populations
    prepared: dict[NormalizationBase, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Arrangement:
    """How examples lie on the first axis: K rows, each of `groups` mini-batches of `size` examples.

    pending: sums that have not been taken yet; what they read must not be written over before.
    """

    plan: EnumerationPlan
    groups: int
    size: int
    pending: list[weakref.ref[Pending]] = field(default_factory=list, compare=False, repr=False)

    @property
    def examples(self) -> int:
        """Examples under one row."""
        return self.groups * self.size


class Examples(Tensor):
    """A tensor whose first axis holds `copies` times the examples of `arrangement`; 1 before the first norm."""

    arrangement: Arrangement
    copies: int

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run `func` on plain tensors, repeat unfanned ones where needed, and mark what comes out."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func in _METADATA:
                return func(*args, **kwargs)
            kept = _stay_factored(func, args, kwargs)
            if kept is not None:
                return kept
            marked: list[Examples] = []
            _collect(args, marked)
            _collect(tuple(kwargs.values()), marked)
            arrangement, copies = marked[0].arrangement, max(tensor.copies for tensor in marked)
            if _writes_in_place(func, kwargs):
                _prepare_writing(kwargs.get("out", args[0] if args else None), arrangement, copies)
            if any(isinstance(tensor, Pending) or tensor.copies != copies for tensor in marked):
                args = _level(args, copies)
                kwargs = {key: _level(value, copies) for key, value in kwargs.items()}
            return _mark(func(*args, **kwargs), arrangement, copies)


class Factored(Protocol):
    """A sum of few tensors that stands for a tensor (rows·G·N, *feature_shape)."""

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """The axes behind the first."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the sum."""

    @property
    def device(self) -> torch.device:
        """Of the sum."""

    def apply(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Factored | None:
        """What `func` makes of it without taking the sum; None where it has to be taken first."""

    def materialized(self) -> Tensor:
        """The sum."""


class Pending(Examples):
    """Examples fanned out over all rows whose sum has not been taken yet; it is taken when something needs it."""

    factored: Factored | None
    value: Examples | None

    @staticmethod
    def of(factored: Factored, arrangement: Arrangement) -> Pending:
        """A tensor of the right shape and type without storage."""
        copies = len(arrangement.plan.rows)
        shape = (copies * arrangement.examples, *factored.feature_shape)
        pending = Tensor._make_wrapper_subclass(Pending, shape, dtype=factored.dtype, device=factored.device)
        assert isinstance(pending, Pending)
        pending.arrangement, pending.copies, pending.factored, pending.value = arrangement, copies, factored, None
        arrangement.pending.append(weakref.ref(pending))
        return pending

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Below torch functions there is nothing to compute on."""
        raise ModelError(
            f"the one-pass evaluation cannot see through {func}; evaluate with one_pass=False, configuration by "
            "configuration"
        )

    def materialized(self) -> Examples:
        """The sum, taken once; from then on the parts are given up."""
        if self.value is None:
            assert self.factored is not None
            self.value = mark(self.factored.materialized(), self.arrangement, self.copies)
            self.factored = None
        return self.value


def mark(data: Tensor, arrangement: Arrangement, copies: int) -> Examples:
    """Plain data as marked examples."""
    marked = data.as_subclass(Examples)
    marked.arrangement, marked.copies = arrangement, copies
    return marked


def plain(examples: Examples) -> Tensor:
    """The data without the mark."""
    if isinstance(examples, Pending):
        examples = examples.materialized()
    return examples.as_subclass(Tensor)


_METADATA = {
    Tensor.size,
    Tensor.dim,
    Tensor.stride,
    Tensor.numel,
    Tensor.is_floating_point,
    Tensor.__len__,
    *(
        getattr(Tensor, name).__get__
        for name in ("shape", "ndim", "dtype", "device", "layout", "requires_grad", "is_cuda")
    ),
}
"""What is known of a tensor without looking at its values."""


def _stay_factored(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Pending | None:
    """A linear operation right behind the first normalization layer, applied to the few parts of the sum."""
    if not args or not isinstance(args[0], Pending) or args[0].factored is None:
        return None
    following = args[0].factored.apply(func, args[1:], kwargs)
    return None if following is None else Pending.of(following, args[0].arrangement)


def _writes_in_place(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Does a torch function write its result into one of its arguments?"""
    name = getattr(func, "__name__", "")
    method = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    return method or kwargs.get("inplace") is True or kwargs.get("out") is not None


def _prepare_writing(target: Any, arrangement: Arrangement, copies: int) -> None:
    """Take the sums that may read what is written over now, and give `target` room for all copies."""
    for reference in arrangement.pending:
        pending = reference()
        if pending is not None:
            pending.materialized()
    arrangement.pending.clear()
    if isinstance(target, Examples) and target.copies < copies:
        target.data = _repeat(target, copies)
        target.copies = copies


def _collect(values: Sequence[Any], found: list[Examples]) -> None:
    for value in values:
        if isinstance(value, Examples):
            found.append(value)
        elif isinstance(value, list | tuple):
            _collect(value, found)


def _level(value: Any, copies: int) -> Any:
    """Every marked tensor in `value` materialized and brought to `copies` copies."""
    if isinstance(value, Pending):
        return value.materialized()
    if isinstance(value, Examples):
        return value if value.copies == copies else _repeat(value, copies)
    if isinstance(value, list | tuple):
        return _like(value, [_level(item, copies) for item in value])
    return value


def _repeat(value: Examples, copies: int) -> Tensor:
    data = value.as_subclass(Tensor)
    if data.ndim == 0:
        return data
    if data.shape[0] != value.arrangement.examples:
        raise ModelError(
            f"a tensor of shape {tuple(data.shape)} from before the first normalization layer meets one from behind "
            f"it, but its first axis does not hold the {value.arrangement.examples} examples: keep examples on "
            "the first axis, or evaluate with one_pass=False"
        )
    return data.unsqueeze(0).expand(copies, *data.shape).reshape(copies * data.shape[0], *data.shape[1:])


def _mark(result: Any, arrangement: Arrangement, copies: int) -> Any:
    if isinstance(result, Tensor):
        return (
            result
            if isinstance(result, Examples) and hasattr(result, "arrangement")
            else mark(result, arrangement, copies)
        )
    if isinstance(result, list | tuple):
        return _like(result, [_mark(item, arrangement, copies) for item in result])
    return result


def _like(sequence: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """`items` as a sequence of the same type; the results of torch functions are tuples with names."""
    make: Callable[[list[Any]], Any] = getattr(type(sequence), "_make", type(sequence))
    return make(items)
