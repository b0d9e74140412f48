"""Batch normalization (BN), layer normalization (LN) and batch layer normalization (BLN)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from math import sqrt
from typing import Any, Unpack

from bln_search.core.configuration import mini_batch_configuration_of
from bln_search.core.enums import Semantics
from bln_search.core.method import Method
from bln_search.norms.feature_layer import FeatureStatisticsLayer
from bln_search.norms.formula_variant import BLN_VARIANTS, BN_VARIANTS, WEIGHT_EPSILON
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.running_statistics import TorchRunningStatisticsLayer


class BLN(FeatureStatisticsLayer):
    """Batch layer normalization: both pairs of statistics, weighted by the mini-batch size.

    w_B = (1 − (1/m + ε))/√d, w_F = (1/m − ε)/√d, ε = 1e-4, m the training mini-batch size, also at inference, d the
    number of channels, also with statistics over the whole layer (`axes`, see `FeatureStatisticsLayer`).
    Source: Ziaee & Çano 2022, Algorithm 1, Eq. 10-17; inference Eq. 18-25.
    """

    method = Method.BLN
    has_fused_kernels = True
    formula_variants = BLN_VARIANTS

    def branch_weights(self, batch_size: int) -> tuple[float, float]:
        """Return w_B and w_F of Eq. 16, divided by √d."""
        root = sqrt(self.num_features)
        return (1 - (1 / batch_size + WEIGHT_EPSILON)) / root, (1 / batch_size - WEIGHT_EPSILON) / root


class BN(TorchRunningStatisticsLayer):
    """Batch normalization with one source for each statistic; values pooled over samples and positions.

    The variance of the mini-batch is σ² = Σ(x − μ)²/n, n the number of values of a feature in it; with `unbiased` it is
    Σ(x − μ)²/(n − 1), in training and for source F, and zero for n = 1. The population variance is n/(n-1)·E[σ²],
    of the σ² divided by n, in both cases.
    Source: Ioffe & Szegedy 2015, Algorithm 1-2 (BLN paper Eq. 1-6); `unbiased` from Ba, Kiros & Hinton 2016, section
    6.6.

    Args:
        num_features: d, the length of the feature axis.
        unbiased: divide the variance of the mini-batch by n − 1.
        layer: further arguments of `Normalization`.
    """

    method = Method.BN
    has_fused_kernels = True
    formula_variants = BN_VARIANTS

    def __init__(self, num_features: int, *, unbiased: bool = False, **layer: Unpack[NormalizationOptions]) -> None:
        super().__init__(num_features, **layer)
        self.formula_variant = replace(self.formula_variant, unbiased=unbiased)

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - independent of the batch size
        """Return weight one for the mini-batch branch."""
        return 1.0, 0.0


class LN(FeatureStatisticsLayer):
    """Layer normalization, with one source for each statistic.

    Over the channels at each position, or over the whole layer (`axes`, see `FeatureStatisticsLayer`).

    Source: Ba, Kiros & Hinton 2016, Eq. 3-4 (BLN paper Eq. 7-9); population values as in BLN's Eq. 20-21.
    """

    method = Method.LN
    has_fused_kernels = True
    formula_variants = BLN_VARIANTS
    requires_layer_estimate = False

    @property
    def reproduces_replaced_layer_outputs(self) -> bool:
        """Whether the outputs are those of the LayerNorm that it replaced: each example by its own features."""
        return self.replaces_torch_layer and self.configuration == mini_batch_configuration_of(self.method)

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - independent of the batch size
        """Return weight one for the feature branch."""
        return 0.0, 1.0


@cache
def import_layer_class(method: Method) -> type[Normalization]:
    """Return the layer of a method."""
    module, _, name = method.description.layer.partition(":")
    layer: type[Normalization] = getattr(import_module(module), name)
    return layer


def make_norm(
    method: Method | str,
    num_features: int,
    *,
    semantics: Semantics | str = Semantics.PAPER,
    epsilon: float | None = None,
    feature_axis: int | None = None,
    batch_size: int | None = None,
    **options: Any,
) -> Normalization:
    """Make a normalization layer by the name of its method.

    Args:
        method: `none` for the layer of a network without normalization.
        num_features: d, the length of the feature axis.
        semantics: variant of the formulas, `paper` or `reference`.
        epsilon: ε under the root of the deviations; None for the default of the variant.
        feature_axis: axis of the features; None for axis 1, the last one of a three-dimensional input.
        batch_size: m, the training mini-batch size in the weights of BLN; None for the size of each mini-batch.
        options: further arguments of the layer of this method.
    """
    return import_layer_class(Method(method))(
        num_features, semantics=semantics, epsilon=epsilon, feature_axis=feature_axis, batch_size=batch_size, **options
    )
