"""The outputs of the first normalization layer in all rows, as a sum of few tensors.

With r_B = w_B/(√d·Std_B) and r_F = w_F/(√d·Std_F), the output under a row is

    y = γ·(x − c_B)·r_B + γ·(c_B − E_B)·r_B + β  +  γ·(x − c_F)·r_F + γ·(c_F − E_F)·r_F

with c the mean of the mini-batch where r is from the mini-batch, and the population mean where r is from the population
(see `ScaleOffsetVariants`), which avoids cancellation. (x − c)·r has one variant for each distinct deviation,
(c_B − E_B)·r_B has no sample axis, (c_F − E_F)·r_F no feature axis. A linear operation after the layer is applied to
these few tensors; the rows are sums of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.norms.row_batching.convolution import CONVOLUTIONS, convolve_in_pieces
from bln_search.norms.row_batching.elementwise import IDENTITY, ElementwiseForm
from bln_search.norms.row_batching.row_sum import RowOutputsAsSums, SumsOfRows

NO_OFFSET = -1
"""Index of an offset of zero."""


@dataclass(frozen=True, kw_only=True)
class FactoredSum(SumsOfRows):
    """Terms of a sum, each with its variants on the first axis and (mini-batch, sample) on the next two.

    Attributes:
        scaled_batch: γ·(x − c_B)·r_B, (variants, G, N, *features), or None.
        offset_batch: β + γ·(c_B − E_B)·r_B, (variants, G or 1, 1, *features).
        scaled_feature: γ·(x − c_F)·r_F, (variants, G, N, *features), or None.
        offset_feature: (c_F − E_F)·r_F, its feature axis of length one until γ is summed into it; or None.
        batch_variants: for each batch variant, the indices of its scaled term and its offset.
        feature_variants: for each feature variant, the indices of its scaled term and its offset, NO_OFFSET for zero.
        gamma: γ in the shape of the features; None once it is summed into `offset_feature`.
        feature_axis: the feature axis among those after the sample axis.
        unflattened: the shape before a flatten, if any.
    """

    scaled_batch: Tensor | None
    offset_batch: Tensor
    scaled_feature: Tensor | None
    offset_feature: Tensor | None
    batch_variants: tuple[tuple[int, int], ...]
    feature_variants: tuple[tuple[int, int], ...]
    gamma: Tensor | None
    feature_axis: int
    unflattened: tuple[int, ...] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Common to all terms."""
        return self.offset_batch.dtype

    @property
    def device(self) -> torch.device:
        """Common to all terms."""
        return self.offset_batch.device

    def try_apply(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> FactoredSum | None:
        """Return the sum after a linear operation; None where `func` cannot be applied term by term."""
        if self.gamma is None:
            return None
        if func in (torch.flatten, Tensor.flatten):
            return self._try_flatten(args, kwargs)
        if func is F.linear:
            return self._try_linear(*args, **kwargs)
        if func in CONVOLUTIONS and self.unflattened is None:
            return self._try_conv2d(*args, **kwargs)
        return None

    def _try_flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FactoredSum | None:
        start = args[0] if args else kwargs.get("start_dim", 0)
        end = args[1] if len(args) > 1 else kwargs.get("end_dim", -1)
        if start != 1 or end not in (-1, len(self.feature_shape)) or self.unflattened is not None:
            return None
        length = 1
        for extent in self.feature_shape:
            length *= extent
        return replace(self, feature_shape=(length,), unflattened=self.feature_shape)

    def _try_linear(self, weight: Tensor, bias: Tensor | None = None) -> FactoredSum | None:
        assert self.gamma is not None
        if self.unflattened is None and self.feature_axis != len(self.feature_shape) - 1:
            return None  # the operation contracts an axis other than the feature axis
        if self.unflattened is None and self.gamma.numel() != self.feature_shape[-1]:
            return None  # one γ for each unit
        shape = self.unflattened or self.feature_shape[-1:]
        axis = self.feature_axis if self.unflattened else 0
        gamma = self.gamma if self.unflattened else self.gamma.reshape(-1)
        folded = (weight.view(-1, *shape) * gamma).sum(axis + 1, keepdim=True).flatten(1)
        is_flattened = self.unflattened is not None

        def linear_of_expanded_term(term: Tensor) -> Tensor:
            return F.linear(term.flatten(1) if is_flattened else term, weight)

        def linear_of_unexpanded_term(term: Tensor) -> Tensor:
            return F.linear(term.flatten(1) if is_flattened else term, folded)

        return self._apply_to_terms(linear_of_expanded_term, linear_of_unexpanded_term, bias)

    def _try_conv2d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> FactoredSum | None:
        assert self.gamma is not None
        if groups != 1 or self.gamma.ndim != 3 or self.feature_axis != 0 or isinstance(padding, str):
            return None
        if self.gamma.shape[1:] != (1, 1):
            return None  # with one γ for each unit the term without features depends on the position
        folded = (weight * self.gamma).sum(1, keepdim=True)

        def convolution_of_expanded_term(term: Tensor) -> Tensor:
            return convolve_in_pieces(term, weight, None, stride, padding, dilation)

        def convolution_of_unexpanded_term(term: Tensor) -> Tensor:
            return convolve_in_pieces(term, folded, None, stride, padding, dilation)

        return self._apply_to_terms(
            convolution_of_expanded_term, convolution_of_unexpanded_term, None if bias is None else bias.view(-1, 1, 1)
        )

    def _apply_to_terms(
        self,
        with_features: Callable[[Tensor], Tensor],
        without_features: Callable[[Tensor], Tensor],
        bias: Tensor | None,
    ) -> FactoredSum:
        """Apply the operation to all terms: one without the feature axis, the others with it."""
        shape = self.unflattened or self.feature_shape

        def apply_to_term(term: Tensor) -> Tensor:
            out = with_features(term.reshape(-1, *shape))
            return out.view(*term.shape[:3], *out.shape[1:])

        scaled_batch, scaled_feature = (
            None if term is None else apply_to_term(term) for term in (self.scaled_batch, self.scaled_feature)
        )
        offset_batch = apply_to_term(self.offset_batch.expand(*self.offset_batch.shape[:3], *shape))
        offset_batch = offset_batch if bias is None else offset_batch + bias
        offset_feature = self.offset_feature
        if offset_feature is not None:
            out = without_features(offset_feature.flatten(0, 2))
            offset_feature = out.view(*offset_feature.shape[:3], *out.shape[1:])
        return replace(
            self,
            scaled_batch=scaled_batch,
            offset_batch=offset_batch,
            scaled_feature=scaled_feature,
            offset_feature=offset_feature,
            feature_shape=tuple(offset_batch.shape[3:]),
            gamma=None,
            unflattened=None,
        )

    def materialize(self, form: ElementwiseForm = IDENTITY, *, pools: bool = False) -> Tensor:
        """Return an elementwise function of the outputs of all rows, see `SumsOfRows`."""
        if self.unflattened is None:
            return super().materialize(form, pools=pools)
        outputs = replace(self, feature_shape=self.unflattened, unflattened=None).materialize(form)
        return outputs.flatten(1)

    def compute_variants(self, start: int, stop: int, factor: float = 1.0) -> RowOutputsAsSums:
        """Return the variants, times a factor, for the mini-batches from `start` to before `stop`."""
        piece = slice(start, stop)
        batch = tuple(self._batch_variant(scaled, offset, piece) for scaled, offset in self.batch_variants)
        feature = self._feature_variants(piece)
        if factor != 1.0:
            batch = tuple(variant.mul_(factor) for variant in batch)
            feature = None if feature is None else feature.mul_(factor)
        return RowOutputsAsSums(
            batch=batch,
            feature=feature,
            rows=self.rows,
            groups=stop - start,
            size=self.size,
            feature_shape=self.feature_shape,
        )

    def _batch_variant(self, scaled: int, offset: int, piece: slice) -> Tensor:
        offsets = self.offset_batch[offset]
        offsets = offsets[piece] if len(offsets) > 1 else offsets
        return offsets.clone() if self.scaled_batch is None else self.scaled_batch[scaled, piece] + offsets

    def _feature_variants(self, piece: slice) -> Tensor | None:
        if self.scaled_feature is None or self.offset_feature is None:
            return None
        scaled, offsets = self.scaled_feature[:, piece], self.offset_feature[:, piece]
        out = scaled.new_empty(len(self.feature_variants), *scaled.shape[1:])
        for (scale, offset), target in zip(self.feature_variants, out, strict=True):
            if offset == NO_OFFSET:
                target.copy_(scaled[scale])
            elif self.gamma is None:
                torch.add(scaled[scale], offsets[offset], out=target)
            else:
                torch.addcmul(scaled[scale], offsets[offset], self.gamma, out=target)
        return out
