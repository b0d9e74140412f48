"""tanh of a factored sum with the average pooling after it, by a compiled kernel or by torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.norms.row_batching.compiled.availability import (
    can_kernels_read,
    flat_array,
    make_index_pair_array,
)
from bln_search.norms.row_batching.factored_sum import FactoredSum
from bln_search.norms.row_batching.fast_tanh import is_tanh_by_sigmoid_faster
from bln_search.norms.row_batching.parallel import run_in_threads
from bln_search.norms.row_batching.tanh_in_pieces import tanh_of_factored_sum

FEWEST_VALUES = 2**20
"""Activations of all rows from which on the kernel is used: a process loads it once, in about a second."""

_FEWEST_VALUES_OF_CHANNEL = 16
"""A kernel reads whole vectors."""


@dataclass(frozen=True)
class TanhOfFactoredSum:
    """tanh of the sums of all rows, computed once the next operation is known.

    Attributes:
        terms: the sum, after a linear operation.
        is_pooled: whether the means of 2×2 squares are computed.
        uses_kernel: whether a compiled kernel computes it; otherwise torch, in single precision on CPU.
    """

    terms: FactoredSum
    is_pooled: bool = False
    uses_kernel: bool = True

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        if not self.is_pooled:
            return self.terms.feature_shape
        channels, height, width = self.terms.feature_shape
        return channels, height // 2, width // 2

    @property
    def dtype(self) -> torch.dtype:
        """Of the output."""
        return self.terms.dtype

    @property
    def device(self) -> torch.device:
        """Of the output."""
        return self.terms.device

    def try_apply(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TanhOfFactoredSum | None:
        """Return the output after an average pooling of 2×2 squares; None for any other operation."""
        is_pooling = func is F.avg_pool2d and not kwargs and _is_pooling_of_squares(*args)
        if self.is_pooled or not is_pooling or len(self.terms.feature_shape) != 3:
            return None
        return replace(self, is_pooled=True)

    def materialize(self) -> Tensor:
        """Return the outputs of all rows, (rows·G·N, *features)."""
        if not self.uses_kernel:
            return tanh_of_factored_sum(self.terms, pools=self.is_pooled)
        from bln_search.norms.row_batching.compiled.sum_tanh import tanh_of_sums  # noqa: PLC0415 - loads the compiler

        terms = self.terms
        assert terms.scaled_batch is not None
        assert terms.scaled_feature is not None
        assert terms.offset_feature is not None
        channels, height, width = (
            terms.feature_shape if len(terms.feature_shape) == 3 else (1, 1, terms.feature_shape[0])
        )
        examples = terms.groups * terms.size
        out = terms.offset_batch.new_empty(len(terms.rows) * examples, *self.feature_shape)
        arrays = (
            *map(flat_array, (terms.scaled_batch, terms.offset_batch, terms.scaled_feature, terms.offset_feature)),
            *map(make_index_pair_array, (terms.batch_variants, terms.feature_variants, terms.rows)),
        )
        shape = examples, terms.size, terms.offset_batch.shape[1], channels, height, width
        target = flat_array(out)
        run_in_threads(lambda start, stop: tanh_of_sums(*arrays, shape, start, stop, self.is_pooled, target), examples)
        return out

    def materialize_tanh(self) -> Tensor:
        """Return tanh of the outputs of all rows, (rows·G·N, *features)."""
        return torch.tanh(self.materialize())


def try_defer_tanh(factored: object) -> TanhOfFactoredSum | None:
    """Return tanh of a sum that will be computed with its pooling; None where tanh is computed at once."""
    if not isinstance(factored, FactoredSum) or factored.gamma is not None or factored.scaled_batch is None:
        return None
    if _can_kernel_compute(factored):
        return TanhOfFactoredSum(factored)
    is_image = len(factored.feature_shape) == 3 and factored.offset_feature is not None
    return (
        TanhOfFactoredSum(factored, uses_kernel=False)
        if is_image and is_tanh_by_sigmoid_faster(factored.offset_batch)
        else None
    )


def _can_kernel_compute(factored: FactoredSum) -> bool:
    shape = factored.feature_shape
    values_of_channel = prod(shape[1:]) if len(shape) == 3 else prod(shape)
    if len(shape) not in (1, 3) or values_of_channel < _FEWEST_VALUES_OF_CHANNEL:
        return False
    if len(factored.rows) * factored.groups * factored.size * prod(shape) < FEWEST_VALUES:
        return False
    terms = factored.scaled_batch, factored.offset_batch, factored.scaled_feature, factored.offset_feature
    return can_kernels_read(*terms)


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
