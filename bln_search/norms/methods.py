"""Batch normalization, layer normalization, batch layer normalization."""

from __future__ import annotations

from math import sqrt
from typing import Any, Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import InferenceConfiguration, Method, Statistic, mini_batch_configuration
from bln_search.core.enums import PopulationEstimate, Semantics
from bln_search.norms.brn import BRN
from bln_search.norms.formula_variant import BLN_READINGS, BN_READINGS, WEIGHT_EPSILON
from bln_search.norms.layer import LayerOptions, Normalization
from bln_search.norms.mbn import MBN
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.statistics import Moments

_COUNTED = 2**62
"""Stands for n in n/(n-1) where a variance has been corrected already: the factor is then exactly one."""


class BLN(Normalization):
    """Batch layer normalization: both pairs of statistics, weighed by the mini-batch size.

    w_B = (1 − (1/m + ε))/√d, w_F = (1/m − ε)/√d, ε = 1e-4, m the training mini-batch size, also at inference.
    Source: Ziaee & Çano 2022, Algorithm 1, Eq. 10-17; inference Eq. 18-25.
    """

    method = Method.BLN
    readings = BLN_READINGS

    def factors(self, m: int) -> tuple[float, float]:
        """w_B and w_F of Eq. 16, divided by √d."""
        root = sqrt(self.num_features)
        return (1 - (1 / m + WEIGHT_EPSILON)) / root, (1 / m - WEIGHT_EPSILON) / root


class BN(Normalization):
    """Batch normalization with a source of its own for each statistic; values pooled over samples and positions.

    Source: Ioffe & Szegedy 2015, Algorithm 1-2 (BLN paper Eq. 1-6); population variance n/(n-1)·E[σ²], n the number
    of values averaged in a mini-batch.
    """

    method = Method.BN
    readings = BN_READINGS
    needs_own_estimate = False
    dynamic_buffers = (*Normalization.dynamic_buffers, "running")
    running: Tensor | None
    """Moving averages of mean and corrected variance (2, d), of a layer of torch that this one replaced."""

    def __init__(self, num_features: int, **layer: Unpack[LayerOptions]) -> None:
        super().__init__(num_features, **layer)
        self.register_buffer("running", None)
        self._shape: torch.Size | None = None

    @property
    def answers_as_before(self) -> bool:
        """By its running statistics where it has them, else by the mini-batch."""
        if self.running is None:
            return self.replaces and self.configuration == mini_batch_configuration(self.method)
        mean = self.configured_value(Statistic.BATCH_MEAN)
        held = mean is not None and torch.equal(mean.flatten(), self.running[0].to(mean.dtype))
        return self.replaces and held and self.configuration == InferenceConfiguration("TT--")

    def factors(self, m: int) -> tuple[float, float]:  # noqa: ARG002 - BN does not weigh by the mini-batch size
        """The whole of the mini-batch part."""
        return 1.0, 0.0

    def own_estimates(self) -> dict[PopulationEstimate, GatheredMoments]:
        """The moving averages of the layer that this one replaced, until this one is trained."""
        if self.running is None:
            return {}
        shape = self._shape or (1, self.num_features)  # no pass has reached this layer yet
        mean, variance = (value.double().view(shape) for value in self.running)
        moments = Moments(mean, torch.zeros_like(mean), torch.sqrt(variance + self.reading.epsilon), variance)
        return {PopulationEstimate.MOVING: GatheredMoments(moments, None, self.batch_size or 1, _COUNTED)}

    def _record(self, statistics: list[Tensor], x: Tensor) -> None:
        if self.training:
            self.running = None
        elif statistics:
            self._shape = statistics[0].shape
        super()._record(statistics, x)


class LN(Normalization):
    """Layer normalization over the feature axis, with a source of its own for each statistic.

    Source: Ba, Kiros & Hinton 2016, Eq. 3-4 (BLN paper Eq. 7-9); population values as BLN's Eq. 20-21.
    """

    method = Method.LN
    readings = BLN_READINGS
    needs_own_estimate = False

    @property
    def answers_as_before(self) -> bool:
        """By the features of each example."""
        return self.replaces and self.configuration == mini_batch_configuration(self.method)

    def factors(self, m: int) -> tuple[float, float]:  # noqa: ARG002 - LN does not weigh by the mini-batch size
        """The whole of the feature part."""
        return 0.0, 1.0


_LAYERS: dict[Method, type[Normalization]] = {layer.method: layer for layer in (BN, LN, BLN, MBN, BRN)}


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
    """A normalization layer by the name of its method: `bn`, `ln`, `bln`, `mbn` or `brn`. options: of MBN and BRN."""
    return _LAYERS[Method(method)](
        num_features, semantics=semantics, epsilon=epsilon, feature_axis=feature_axis, batch_size=batch_size, **options
    )
