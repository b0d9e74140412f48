"""The normalization layer: one implementation for every method, told apart by its statistics and their weights."""

from __future__ import annotations

from typing import TypedDict, Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import (
    BATCH_STATISTICS,
    FEATURE_STATISTICS,
    InferenceConfiguration,
    Statistic,
    mini_batch_configuration,
)
from bln_search.core.enums import PopulationEstimate, Semantics
from bln_search.norms.axes import check_features
from bln_search.norms.base import NormalizationBase
from bln_search.norms.enumeration import enumerate_rows
from bln_search.norms.moment_collection import GatheredMoments, Gatherer
from bln_search.norms.row_tensor import Examples
from bln_search.norms.statistics import centred_moments


class LayerOptions(TypedDict, total=False):
    """What every normalization layer may be told beyond its number of features."""

    semantics: Semantics | str
    epsilon: float | None
    feature_axis: int | None
    batch_size: int | None


class Normalization(NormalizationBase):
    """y = γ·( w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F ) + β, with the weights of the method.

    In training mode every statistic is the mini-batch's (of MBN and BRN: see there). In evaluation mode each comes from
    where `configuration` says: the mini-batch at hand, the population value set by `configure`, or the memory.

    num_features: d, the length of the feature axis.
    semantics: which reading of the formulas, `paper` or `reference`.
    epsilon: ε under the root of the deviations; by default 1e-4 in the paper's reading, 1e-3 in the reference.
    feature_axis: axis of the features; by default 1, and the last one of a three-dimensional input.
    batch_size: m, the training mini-batch size that the weights of BLN depend on; by default the size at hand.

    Input and output: (N, D), (N, T, D) or (N, C, H, W), of a floating type.
    """

    def __init__(self, num_features: int, **layer: Unpack[LayerOptions]) -> None:
        super().__init__(num_features, **layer)
        self.gatherers: list[Gatherer] = []
        self.recording = True

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x`; an input marked by the one-pass evaluation leaves under every configuration at once.

        Statistics of half precision are computed in single precision, as torch's own layers do.
        """
        if x.dtype in (torch.float16, torch.bfloat16):
            return self.forward(x.float()).to(torch.promote_types(x.dtype, self.weight.dtype))
        if isinstance(x, Examples):
            return enumerate_rows(self, x)
        axes = self.axes(x.ndim)
        check_features(x, axes, self.num_features)
        configuration = mini_batch_configuration(self.method) if self.training else self.configuration
        batch_factor, feature_factor = self.factors(self.batch_size or x.shape[0])
        statistics: list[Tensor] = []
        parts: list[Tensor] = []
        if self.has_batch:
            parts.append(self._part(x, axes.batch, batch_factor, configuration, BATCH_STATISTICS, statistics))
        if self.has_feature:
            parts.append(self._part(x, (axes.feature,), feature_factor, configuration, FEATURE_STATISTICS, statistics))
        self._record(statistics, x)
        shape = axes.features_shape(self.num_features)
        total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return torch.addcmul(self.bias.view(shape), total, self.weight.view(shape))

    def _part(
        self,
        x: Tensor,
        axes: tuple[int, ...],
        factor: float,
        configuration: InferenceConfiguration,
        pair: tuple[Statistic, Statistic],
        statistics: list[Tensor],
    ) -> Tensor:
        """factor·(x − E)/Std for one pair of statistics; what was measured is appended to `statistics`."""
        sources = configuration.source(pair[0]), configuration.source(pair[1])
        population = self.inference_value(pair[0], sources[0], x), self.inference_value(pair[1], sources[1], x)
        if population[0] is not None and population[1] is not None and not self.gatherers:
            return (x - population[0]) * (factor / population[1])
        mean, centred, variance = centred_moments(x, axes)
        own_deviation = torch.sqrt(variance + self.reading.epsilon)
        statistics += [mean, own_deviation, variance]
        if self.training:
            return self.training_part(x, mean, centred, variance, own_deviation, factor)
        deviation = own_deviation
        if population[1] is not None:
            deviation = population[1]
        elif population[0] is not None and self.reading.around_chosen_mean:
            around = (x - population[0]).square().mean(axes, keepdim=True)
            deviation = torch.sqrt(around + self.reading.epsilon)
        return (centred if population[0] is None else x - population[0]) * (factor / deviation)

    def training_part(
        self,
        x: Tensor,  # noqa: ARG002
        mean: Tensor,  # noqa: ARG002
        centred: Tensor,
        variance: Tensor,  # noqa: ARG002
        deviation: Tensor,
        factor: float,
    ) -> Tensor:
        """factor·(x − E)/Std of a pair in training mode, from the statistics of the mini-batch at hand."""
        return centred * (factor / deviation)

    def remember(self, mean: Tensor, deviation: Tensor, variance: Tensor, values: int) -> None:
        """Called with the statistics of every training step while `recording`; methods with a history keep them."""

    def own_estimates(self) -> dict[PopulationEstimate, GatheredMoments]:
        """Population estimates that the layer itself has gathered in training."""
        return {}

    def _record(self, statistics: list[Tensor], x: Tensor) -> None:
        """Hand what was measured to the gatherers and, in training, to the layer's own history."""
        recorded = self.training and self.recording
        values = x.numel() // self.num_features
        for gatherer in self.gatherers:
            if recorded or gatherer.in_evaluation:
                gatherer.update(statistics, x.shape[0], values)
        if recorded:
            self.stale = True
            self.remember(statistics[0], statistics[1], statistics[2], values)
