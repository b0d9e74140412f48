"""A tensor subclass that batches the examples of many rows (configurations) on the first axis.

The one-pass evaluation puts a row tag on the network's input. The tag follows every operation: the first normalization
layer expands N examples to K·N (the K rows of the plan one after the other on the first axis), and later layers see
only more examples. Where both kinds meet (a residual connection around the first normalization layer), the unexpanded
tensor is repeated. Modules that treat examples independently work unchanged.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.blend import PopulationWeight, parse_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.convolution import CONVOLUTIONS, convolve_in_pieces
from bln_search.norms.row_batching.elementwise import (
    IDENTITY,
    ElementwiseForm,
    apply_faster_form,
    find_elementwise_form,
)
from bln_search.norms.row_batching.row_sum import pooled_shape
from bln_search.norms.statistics import LayerPopulation

LayerPopulations = Mapping[str, LayerPopulation]
Populations = Mapping[NormalizationBase, LayerPopulations]


@dataclass(frozen=True, order=True)
class InferenceRow:
    """One configuration with one population estimate.

    Attributes:
        configuration: the configuration.
        estimate: label of the estimate, the name of a population, alone or blended: `frozen`, `target@0.1`; None where
            no statistic reads the population.
    """

    configuration: InferenceConfiguration
    estimate: str | None

    @property
    def population_name(self) -> str | None:
        """Name of the population; None where no statistic reads one."""
        return None if self.estimate is None else parse_estimate_label(self.estimate)[0]

    @property
    def blend(self) -> PopulationWeight | None:
        """Weight of the population in blended statistics; None where it is not blended."""
        return None if self.estimate is None else parse_estimate_label(self.estimate)[1]

    @property
    def label(self) -> str:
        """Configuration and estimate, for messages."""
        return " ".join(str(part) for part in (self.configuration, self.estimate) if part)


@dataclass(frozen=True)
class RowBatchingPlan:
    """The rows that one pass evaluates, and their population values.

    Attributes:
        rows: the rows.
        populations: population values of each layer under each estimate.
        layer_sources: cache of `LayerSourcesByRow` for each layer, shared by all mini-batches.
    """

    rows: tuple[InferenceRow, ...]
    populations: Populations
    layer_sources: dict[NormalizationBase, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchLayout:
    """Layout of the first axis: K rows, each of `groups` mini-batches of `size` examples.

    Attributes:
        plan: the rows and their population values.
        groups: number of mini-batches.
        size: number of examples in each.
        lazy_tensors: tensors that are not computed yet; their operands must not be overwritten before.
    """

    plan: RowBatchingPlan
    groups: int
    size: int
    lazy_tensors: list[weakref.ref[LazyRowTensor]] = field(default_factory=list, compare=False, repr=False)

    @property
    def examples_per_row(self) -> int:
        """Number of examples of one row."""
        return self.groups * self.size


class RowBatchingError(ModelError):
    """A network computes something that is not possible for the examples of many rows on one axis."""


class RowBatchedTensor(Tensor):
    """A tensor whose first axis holds `copies` times the examples of `batch_layout`.

    Attributes:
        batch_layout: layout of the first axis.
        copies: the number of rows; 1 before the first normalization layer.
    """

    batch_layout: BatchLayout
    copies: int

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run `func` on plain tensors, repeat unexpanded ones where needed, and put the row tag on the result."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func in _METADATA:
                return func(*args, **kwargs)
            early_result: RowBatchedTensor | None = _apply_to_factors(func, args, kwargs)
            if early_result is None and len(args) == 1 and not kwargs:
                early_result = _apply_faster_form(func, args[0])
            if early_result is not None:
                return early_result
            tensors: list[RowBatchedTensor] = []
            _collect_tagged(args, tensors)
            _collect_tagged(tuple(kwargs.values()), tensors)
            layout, copies = tensors[0].batch_layout, max(tensor.copies for tensor in tensors)
            if _writes_in_place(func, kwargs):
                _prepare_in_place_write(kwargs.get("out", args[0] if args else None), layout, copies)
            if any(isinstance(tensor, LazyRowTensor) or tensor.copies != copies for tensor in tensors):
                args = _materialize_and_repeat(args, copies)
                kwargs = {key: _materialize_and_repeat(value, copies) for key, value in kwargs.items()}
            computed = convolve_in_pieces if func in CONVOLUTIONS and len(args) > 1 else func
            return _tag_result(computed(*args, **kwargs), layout, copies)


class FactoredOutput(Protocol):
    """A sum of few tensors that represents a tensor (rows·G·N, *feature_shape)."""

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """The axes after the first."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the sum."""

    @property
    def device(self) -> torch.device:
        """The device of the sum."""

    def try_apply(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> FactoredOutput | None:
        """Apply `func` to the terms of the sum; None where the sum must be computed first."""

    def materialize(self, form: ElementwiseForm = IDENTITY, *, pools: bool = False) -> Tensor:
        """Compute an elementwise function of the sum, or its average pooling in squares of 2×2."""


class LazyRowTensor(RowBatchedTensor):
    """Examples of all rows that are computed on first use: a sum, or an elementwise function of it, pooled or not."""

    factored: FactoredOutput | None
    form: ElementwiseForm
    pools: bool
    value: RowBatchedTensor | None

    @staticmethod
    def from_factored_output(
        factored: FactoredOutput, layout: BatchLayout, form: ElementwiseForm = IDENTITY, *, pools: bool = False
    ) -> LazyRowTensor:
        """Make a tensor of the shape and dtype of the outputs without storage."""
        copies = len(layout.plan.rows)
        features = pooled_shape(factored.feature_shape) if pools else factored.feature_shape
        shape = (copies * layout.examples_per_row, *features)
        tensor = Tensor._make_wrapper_subclass(LazyRowTensor, shape, dtype=factored.dtype, device=factored.device)
        assert isinstance(tensor, LazyRowTensor)
        tensor.batch_layout, tensor.copies, tensor.factored, tensor.value = layout, copies, factored, None
        tensor.form, tensor.pools = form, pools
        layout.lazy_tensors.append(weakref.ref(tensor))
        return tensor

    def try_apply(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> LazyRowTensor | None:
        """Return the outputs after an operation that needs no computation of the sums; None for any other."""
        factored = self.factored
        if factored is None or self.pools:
            return None
        if self.form is not IDENTITY:
            can_pool = func is F.avg_pool2d and not kwargs and len(factored.feature_shape) == 3
            if not can_pool or not _is_pooling_of_squares(*args):
                return None
            return LazyRowTensor.from_factored_output(factored, self.batch_layout, self.form, pools=True)
        form = find_elementwise_form(func, args, kwargs)
        if form is not None:
            return LazyRowTensor.from_factored_output(factored, self.batch_layout, form)
        applied = factored.try_apply(func, args, kwargs)
        return None if applied is None else LazyRowTensor.from_factored_output(applied, self.batch_layout)

    @property
    def unchanged_sum(self) -> FactoredOutput | None:
        """The sum; None where it is computed, or a function of it is awaited."""
        return self.factored if self.form is IDENTITY else None

    @property
    def awaits_pooling(self) -> bool:
        """Whether torch's average pooling of images is computed together with the function of the sums."""
        return self.factored is not None and self.form is not IDENTITY and not self.pools

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Raise ModelError: an operation bypassed `__torch_function__` and finds no storage."""
        raise RowBatchingError(f"the one-pass evaluation does not support the operation {func}")

    def materialize(self) -> RowBatchedTensor:
        """Compute the sum on the first call and release its terms."""
        if self.value is None:
            assert self.factored is not None
            self.value = tag_with_rows(
                self.factored.materialize(self.form, pools=self.pools), self.batch_layout, self.copies
            )
            self.factored = None
        return self.value


def tag_with_rows(data: Tensor, layout: BatchLayout, copies: int) -> RowBatchedTensor:
    """Return `data` with a row tag."""
    tagged = data.as_subclass(RowBatchedTensor)
    tagged.batch_layout, tagged.copies = layout, copies
    return tagged


def remove_row_tag(tensor: RowBatchedTensor) -> Tensor:
    """Return the data without the row tag."""
    if isinstance(tensor, LazyRowTensor):
        tensor = tensor.materialize()
    return tensor.as_subclass(Tensor)


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
"""Attributes of a tensor that do not depend on its values."""


def _apply_to_factors(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> LazyRowTensor | None:
    """Apply an operation to a tensor that is not computed yet; return None where it must be computed first."""
    return args[0].try_apply(func, args[1:], kwargs) if args and isinstance(args[0], LazyRowTensor) else None


def _apply_faster_form(func: Callable[..., Any], x: RowBatchedTensor) -> RowBatchedTensor | None:
    """Apply an elementwise function that has a faster form than torch's; return None for any other."""
    if not isinstance(x, RowBatchedTensor) or find_elementwise_form(func, (), {}) is None:
        return None
    values = apply_faster_form(func, remove_row_tag(x))
    return None if values is None else tag_with_rows(values, x.batch_layout, x.copies)


def _is_pooling_of_squares(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,  # noqa: FBT001, FBT002 - of torch
    _count_include_pad: bool = True,  # noqa: FBT001, FBT002 - of torch
    divisor_override: int | None = None,
) -> bool:
    """Return whether arguments of torch's average pooling describe 2×2 squares without padding."""
    return (
        kernel_size in (2, (2, 2))
        and stride in (None, 2, (2, 2), ())
        and padding in (0, (0, 0))
        and not ceil_mode
        and divisor_override is None
    )


def _writes_in_place(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a torch function writes its result into one of its arguments."""
    name = getattr(func, "__name__", "")
    is_in_place_method = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    return is_in_place_method or kwargs.get("inplace") is True or kwargs.get("out") is not None


def _prepare_in_place_write(target: Any, layout: BatchLayout, copies: int) -> None:
    """Compute the lazy tensors that may depend on `target`, and expand `target` to all copies."""
    for reference in layout.lazy_tensors:
        tensor = reference()
        if tensor is not None:
            tensor.materialize()
    layout.lazy_tensors.clear()
    if isinstance(target, RowBatchedTensor) and target.copies < copies:
        target.data = _repeat_rows(target, copies)
        target.copies = copies


def _collect_tagged(values: Sequence[Any], tensors: list[RowBatchedTensor]) -> None:
    """Append every tensor with a row tag in nested `values` to `tensors`."""
    for value in values:
        if isinstance(value, RowBatchedTensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            _collect_tagged(value, tensors)


def _materialize_and_repeat(value: Any, copies: int) -> Any:
    """Materialize every tensor with a row tag in `value` and repeat it to `copies` copies."""
    if isinstance(value, LazyRowTensor):
        return value.materialize()
    if isinstance(value, RowBatchedTensor):
        return value if value.copies == copies else _repeat_rows(value, copies)
    if isinstance(value, list | tuple):
        return _rebuild_sequence(value, [_materialize_and_repeat(item, copies) for item in value])
    return value


def _repeat_rows(value: RowBatchedTensor, copies: int) -> Tensor:
    data = value.as_subclass(Tensor)
    if data.ndim == 0:
        return data
    if data.shape[0] != value.batch_layout.examples_per_row:
        raise RowBatchingError(
            f"a tensor of shape {tuple(data.shape)} from before the first normalization layer is combined with one "
            f"from after it, but its first axis does not hold the {value.batch_layout.examples_per_row} examples"
        )
    return data.unsqueeze(0).expand(copies, *data.shape).reshape(copies * data.shape[0], *data.shape[1:])


def _tag_result(result: Any, layout: BatchLayout, copies: int) -> Any:
    if isinstance(result, Tensor):
        return (
            result
            if isinstance(result, RowBatchedTensor) and hasattr(result, "batch_layout")
            else tag_with_rows(result, layout, copies)
        )
    if isinstance(result, list | tuple):
        return _rebuild_sequence(result, [_tag_result(item, layout, copies) for item in result])
    return result


def _rebuild_sequence(sequence: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """Return `items` as a sequence of the type of `sequence`; torch functions return named tuples."""
    make: Callable[[list[Any]], Any] = getattr(type(sequence), "_make", type(sequence))
    return make(items)
