"""The outputs of a normalization layer over inputs (N, D) in all rows, with a linear layer after it.

With r_B = w_B/(√d·Std_B), r_F = w_F/(√d·Std_F) and the centres c of `factored_sum`, a linear layer W gives

    W(γ (x − c_B) r_B) + W(γ (c_B − E_B) r_B) + Wβ + b   +   r_F·( Wγ (x − c) + Wγ c − E_F Σγ_d w_d )

Here r_F and E_F are one number for each example, so one product Wγ(x − c), c any of the centres c_B, serves all feature
variants. Where r_B is a population value, it is the same for all mini-batches and is multiplied into the weights,
W·diag(γ r_B), instead of the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.dense_in_pieces import (
    LinearOfScaledInput,
    compute_linear_in_pieces,
    compute_means_and_variances,
)
from bln_search.norms.row_batching.elementwise import IDENTITY, ElementwiseForm
from bln_search.norms.row_batching.row_sources import EstimateOrBatch, LayerSourcesByRow
from bln_search.norms.row_batching.row_sum import RowOutputsAsSums
from bln_search.norms.row_batching.scale_offset_variants import MiniBatchStatistics, ScaleOffsetVariants


@dataclass(frozen=True)
class ClassMajorLogitsAsSums:
    """Logits of all rows with classes first: row i is batch[rows[i][0]] + feature[rows[i][1]].

    Operations over examples then run over contiguous memory.

    Attributes:
        batch: for each batch variant (K, G, N).
        feature: (variants, K, G, N).
        rows: for each row, the indices of its batch variant and its feature variant.
    """

    batch: tuple[Tensor, ...]
    feature: Tensor
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DensePairVariants:
    """Variants of both pairs.

    Attributes:
        batch: variants of the batch pair; None where the method does not have it.
        feature: variants of the feature pair; None where the method does not have it.
        rows: for each row, the indices of its batch variant and its feature variant.
    """

    batch: ScaleOffsetVariants | None
    feature: ScaleOffsetVariants | None
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DenseNormOutput:
    """The outputs of a layer over x (G, N, D) in all rows of a plan, computed once the next operation is known.

    Attributes:
        layer: the layer.
        x: its inputs.
        sources: of its statistics.
        num_rows: number of rows of the plan.
        linear: weight (K, D) and bias of a linear layer after it; None without one.
    """

    layer: NormalizationBase
    x: Tensor
    sources: LayerSourcesByRow
    num_rows: int
    linear: tuple[Tensor, Tensor | None] | None = None

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """(D,), or (K,) after a linear layer."""
        return (self.x.shape[2] if self.linear is None else len(self.linear[0]),)

    @property
    def dtype(self) -> torch.dtype:
        """Of the output."""
        return self.x.dtype

    @property
    def device(self) -> torch.device:
        """Of the output."""
        return self.x.device

    def try_apply(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> DenseNormOutput | None:
        """Return the outputs after a linear layer; None where `func` is not one."""
        if self.linear is not None:
            return None
        if func in (torch.flatten, Tensor.flatten) and not kwargs and tuple(args) in ((1,), (1, -1), (1, 1)):
            return self
        return self._apply_linear(*args, **kwargs) if func is F.linear else None

    def _apply_linear(self, weight: Tensor, bias: Tensor | None = None) -> DenseNormOutput:
        return replace(self, linear=(weight, bias))

    def materialize(self, form: ElementwiseForm = IDENTITY, *, pools: bool = False) -> Tensor:
        """Return an elementwise function of the outputs of all rows, see `SumsOfRows`."""
        return self.to_row_outputs_as_sums().materialize(form, pools=pools)

    def to_row_outputs_as_sums(self) -> RowOutputsAsSums:
        """Return the variants of each pair, (G, N, D), or (G, N, K) after a linear layer."""
        variants = self.compute_pair_variants()
        if self.linear is None:
            batch, feature = self._norm_outputs(variants)
        else:
            batch, feature = self._linear_outputs(variants, *self.linear, classes_first=False)
        return RowOutputsAsSums(
            batch=tuple(batch),
            feature=feature,
            rows=variants.rows,
            groups=self.x.shape[0],
            size=self.x.shape[1],
            feature_shape=self.feature_shape,
        )

    def try_class_major_logits_as_sums(self) -> ClassMajorLogitsAsSums | None:
        """Return the variants of each pair, (K, G, N); None without a linear layer or without a feature pair."""
        if self.linear is None or self.sources.feature is None:
            return None
        variants = self.compute_pair_variants()
        batch, feature = self._linear_outputs(variants, *self.linear, classes_first=True)
        assert feature is not None
        return ClassMajorLogitsAsSums(tuple(output.expand_as(feature[0]) for output in batch), feature, variants.rows)

    def compute_pair_variants(self) -> DensePairVariants:
        """Return scales and offsets of both pairs, with axes (G, N, D)."""
        batch_weight, feature_weight = self.layer.branch_weights(self.layer.batch_size or self.x.shape[1])
        pairs = (1, self.sources.batch, batch_weight), (2, self.sources.feature, feature_weight)
        used = [(axis, sources, weight) for axis, sources, weight in pairs if sources is not None]
        all_moments = compute_means_and_variances(self.x, [axis for axis, _, _ in used])
        variants: dict[int, ScaleOffsetVariants] = {}
        for (axis, sources, weight), (mean, variance) in zip(used, all_moments, strict=True):
            moments = MiniBatchStatistics(self.x, (axis,), mean, variance, self.x.shape[1])
            variants[axis] = ScaleOffsetVariants(self.layer.formula_variant, moments, sources, weight)
        batch, feature = variants.get(1), variants.get(2)
        zeros = [0] * self.num_rows
        row_batch = zeros if batch is None else batch.row_variant
        row_feature = zeros if feature is None else feature.row_variant
        return DensePairVariants(batch, feature, tuple(zip(row_batch, row_feature, strict=True)))

    def _norm_outputs(self, variants: DensePairVariants) -> tuple[list[Tensor], Tensor | None]:
        """Return the outputs of the layer for the batch variants and for the feature variants."""
        gamma, beta = self.layer.weight, self.layer.bias
        batch, feature = [beta.view(1, 1, -1)], None
        if variants.batch is not None:
            batch = [
                torch.addcmul(beta, variants.batch.centred_by_source(mean), gamma * variants.batch.scales[scale])
                for (scale, _), mean in zip(variants.batch.variants, variants.batch.means, strict=True)
            ]
        if variants.feature is not None:
            bases = {
                mean: variants.feature.centred_by_source(mean) * gamma for mean in dict.fromkeys(variants.feature.means)
            }
            feature = _scale_feature_variants(variants.feature, bases)
        return batch, feature

    def _linear_outputs(
        self, variants: DensePairVariants, linear: Tensor, bias: Tensor | None, *, classes_first: bool
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the outputs of the linear layer for the batch variants and for the feature variants.

        Args:
            variants: of both pairs.
            linear: weight of the linear layer.
            bias: of the linear layer.
            classes_first: whether the K outputs are on the first axis; otherwise on the last.
        """
        weight = linear * self.layer.weight
        constant = F.linear(self.layer.bias, linear, bias)
        constant = constant.view(-1, 1, 1) if classes_first else constant
        if variants.feature is None:
            assert variants.batch is not None
            batch, _ = self._batch_outputs(variants.batch, weight, classes_first=classes_first, needs_product=False)
            return [output + constant for output in batch], None
        means = tuple(dict.fromkeys(variants.feature.means))
        values = [variants.feature.mean_from_source(mean) for mean in means]
        if variants.batch is None:
            layers = [LinearOfScaledInput(value, None, weight) for value in values]
            outputs = compute_linear_in_pieces(self.x, layers, classes_first=classes_first)
            feature = _scale_feature_variants(
                variants.feature, dict(zip(means, outputs, strict=True)), constant, classes_first=classes_first
            )
            return [torch.zeros_like(feature[0])], feature
        batch, product = self._batch_outputs(variants.batch, weight, classes_first=classes_first, needs_product=True)
        assert product is not None
        weight_sums = weight.sum(1)
        weight_sums = weight_sums.view(-1, 1, 1) if classes_first else weight_sums
        bases = {
            mean: torch.addcmul(product, weight_sums, value.squeeze(-1) if classes_first else value, value=-1)
            for mean, value in zip(means, values, strict=True)
        }
        return batch, _scale_feature_variants(variants.feature, bases, constant, classes_first=classes_first)

    def _batch_outputs(
        self, pair: ScaleOffsetVariants, weight: Tensor, *, classes_first: bool, needs_product: bool
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the outputs of the batch variants without the constant, and Wγx, None unless `needs_product`.

        Args:
            pair: the batch variants.
            weight: Wγ.
            classes_first: whether the K outputs are on the first axis; otherwise on the last.
            needs_product: whether to compute Wγx.
        """
        linear = _linear_classes_first if classes_first else F.linear
        scaled_outputs, product = _outputs_per_scale(
            self.x, pair, weight, classes_first=classes_first, needs_product=needs_product
        )
        outputs = []
        for variant, (scale, _) in enumerate(pair.variants):
            output, shift = scaled_outputs[scale], pair.find_shift_of_variant(variant)
            outputs.append(output if shift is None else output + linear(shift * pair.scales[scale], weight))
        return outputs, product


def _outputs_per_scale(
    x: Tensor, pair: ScaleOffsetVariants, weight: Tensor, *, classes_first: bool, needs_product: bool
) -> tuple[list[Tensor], Tensor | None]:
    """Return W·diag(r)·(x − centre) for each scale r, and Wx, None unless `needs_product`.

    A scale that is the same for all mini-batches is multiplied into the weights; Wx is computed together with the first
    of them.

    Args:
        x: the inputs, (G, N, D).
        pair: the batch variants.
        weight: W.
        classes_first: whether the K outputs are on the first axis; otherwise on the last.
        needs_product: whether to compute Wx.
    """
    linear = _linear_classes_first if classes_first else F.linear
    centres = {source: pair.mean_from_source(source) for source in (*pair.centres, None)}
    combined = next(
        (index for index, is_constant in enumerate(pair.is_constant) if is_constant and needs_product), None
    )
    layers = []
    for index, (scale, is_constant, source) in enumerate(zip(pair.scales, pair.is_constant, pair.centres, strict=True)):
        if not is_constant:
            layers.append(LinearOfScaledInput(centres[source], scale, weight))
            continue
        scaled = weight * scale.view(1, -1)
        weights = torch.cat([scaled, weight]) if index == combined else scaled
        layers.append(LinearOfScaledInput(centres[source], None, weights))
    if needs_product and combined is None:
        layers.append(LinearOfScaledInput(centres[None], None, weight))
    outputs = compute_linear_in_pieces(x, layers, classes_first=classes_first)
    if not needs_product:
        return outputs, None
    if combined is None:
        centre, product = centres[None], outputs.pop()
    else:
        centre = centres[pair.centres[combined]]
        outputs[combined], product = torch.split(outputs[combined], len(weight), 0 if classes_first else 2)
    return outputs, product.add_(linear(centre, weight))


def _linear_classes_first(x: Tensor, weight: Tensor) -> Tensor:
    """(G, N, D) or (N, D) to (K, G or 1, N)."""
    return torch.mm(weight, x.reshape(-1, x.shape[-1]).t()).view(len(weight), -1, x.shape[-2])


def _scale_feature_variants(
    pair: ScaleOffsetVariants,
    bases: Mapping[EstimateOrBatch, Tensor],
    constant: Tensor | None = None,
    *,
    classes_first: bool = False,
) -> Tensor:
    """Return constant + base·r_F for each feature variant: (variants, G, N, K), or (variants, K, G, N).

    Args:
        pair: the feature variants.
        bases: for each source of the mean, the value that is multiplied by the scale.
        constant: added to all variants; None for zero.
        classes_first: whether the K outputs are on the second axis; otherwise on the last.
    """
    like = next(iter(bases.values()))
    out = like.new_empty((len(pair.variants), *like.shape))
    for target, (scale_index, _), mean in zip(out, pair.variants, pair.means, strict=True):
        scale = pair.scales[scale_index].squeeze(-1) if classes_first else pair.scales[scale_index]
        if constant is None:
            torch.mul(bases[mean], scale, out=target)
        else:
            torch.addcmul(constant, bases[mean], scale, out=target)
    return out
