"""The normalization layer: one implementation for all methods, which differ in statistics and branch weights."""

from __future__ import annotations

from math import prod
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import (
    BATCH_STATISTICS,
    FEATURE_STATISTICS,
    InferenceConfiguration,
    Source,
    Statistic,
    mini_batch_configuration,
)
from bln_search.core.enums import Semantics
from bln_search.norms.base import NormalizationBase
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator
from bln_search.norms.row_batching.enumeration import normalize_all_rows
from bln_search.norms.row_batching.row_tensor import RowBatchedTensor
from bln_search.norms.statistics import centred_moments


class LayerOptions(TypedDict, total=False):
    """Optional arguments of every normalization layer; see `Normalization`."""

    semantics: Semantics | str
    epsilon: float | None
    feature_axis: int | None
    batch_size: int | None


class Normalization(NormalizationBase):
    """y = γ·( w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F ) + β, with the weights of the method.

    In training mode all statistics come from the mini-batch (MBN and BRN: see there). In evaluation mode the
    `configuration` names the source of each: the mini-batch, the population value set by `configure`, or the memory.
    With a `training_configuration` these are the sources in training mode too (BLN paper, Algorithm 2, step 13):
    population values are constants to the gradient, statistics of the mini-batch carry it.

    Args:
        num_features: d, the length of the feature axis.
        semantics: variant of the formulas, `paper` or `reference`.
        epsilon: ε under the root of the deviations; by default 1e-4 for `paper`, 1e-3 for `reference`.
        feature_axis: axis of the features; by default 1, and the last one of a three-dimensional input.
        batch_size: m, the training mini-batch size in the weights of BLN; by default the size of each mini-batch.

    Input and output: (N, D), (N, T, D), (N, C, H, W) or (N, C, D, H, W), of a floating-point type. With
    `feature_axis` any number of axes from 2.
    """

    def __init__(self, num_features: int, **layer: Unpack[LayerOptions]) -> None:
        super().__init__(num_features, **layer)
        self.accumulators: list[MomentAccumulator] = []
        self.records_history = True

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x`; an input with a row tag of the one-pass evaluation is normalized under all rows.

        Statistics of half-precision inputs are computed in single precision, as in torch's own layers.
        """
        if x.dtype in (torch.float16, torch.bfloat16):
            return self.forward(x.float()).to(torch.promote_types(x.dtype, self.weight.dtype))
        if isinstance(x, RowBatchedTensor):
            return normalize_all_rows(self, x)
        self.check_input(x)
        axes = self.axes(x.ndim)
        configuration = self.configuration
        if self.training:
            configuration = self.training_configuration or mini_batch_configuration(self.method)
        batch_weight, feature_weight = self.branch_weights(self.batch_size or x.shape[0])
        statistics: list[Tensor] = []
        branches: list[Tensor] = []
        if self.has_batch_statistics:
            branches.append(
                self._normalize_branch(
                    x, axes.batch_reduction_axes, batch_weight, configuration, BATCH_STATISTICS, statistics
                )
            )
        if self.has_feature_statistics:
            branches.append(
                self._normalize_branch(
                    x, axes.feature_reduction_axes, feature_weight, configuration, FEATURE_STATISTICS, statistics
                )
            )
        self._record(statistics, x)
        shape = self.parameter_shape(x.ndim)
        total = branches[0] if len(branches) == 1 else branches[0] + branches[1]
        return torch.addcmul(self.bias.view(shape), total, self.weight.view(shape))

    def _normalize_branch(
        self,
        x: Tensor,
        axes: tuple[int, ...],
        weight: float,
        configuration: InferenceConfiguration,
        pair: tuple[Statistic, Statistic],
        statistics: list[Tensor],
    ) -> Tensor:
        """Return weight·(x − E)/Std for one pair; append mean, deviation and variance, if computed, to `statistics`."""
        sources = configuration.source(pair[0]), configuration.source(pair[1])
        population = self.inference_value(pair[0], sources[0], x), self.inference_value(pair[1], sources[1], x)
        is_blended = Source.BLEND in sources
        is_recorded = bool(self.accumulators) or (self.training and self.records_history and self.has_history)
        if population[0] is not None and population[1] is not None and not is_blended and not is_recorded:
            return (x - population[0]) * (weight / population[1])
        mean, centred, variance = centred_moments(x, axes)
        statistics += [mean, torch.sqrt(variance + self.formula_variant.epsilon), variance]
        batch_deviation = statistics[-2]
        if self.formula_variant.unbiased:
            batch_deviation = self.formula_variant.batch_deviation(variance, prod(x.shape[axis] for axis in axes))
        if self.training and self.training_configuration is None:
            return self.training_branch(x, mean, centred, variance, batch_deviation, weight)
        selected_mean, deviation = population
        if selected_mean is not None:
            if sources[0] is Source.BLEND:
                selected_mean = torch.lerp(mean, selected_mean, self._population_weight(x))
            if self.formula_variant.around_selected_mean:
                around_selected = (x - selected_mean).square().mean(axes, keepdim=True)
                batch_deviation = torch.sqrt(around_selected + self.formula_variant.epsilon)
        if deviation is None:
            deviation = batch_deviation
        elif sources[1] is Source.BLEND:
            deviation = torch.lerp(batch_deviation.square(), deviation.square(), self._population_weight(x)).sqrt()
        return (centred if selected_mean is None else x - selected_mean) * (weight / deviation)

    def _population_weight(self, x: Tensor) -> float:
        """Return the weight of the population in blended statistics of the mini-batch `x`."""
        assert self.blend is not None
        return self.blend.weight(x.shape[0])

    def training_branch(
        self,
        x: Tensor,  # noqa: ARG002
        mean: Tensor,  # noqa: ARG002
        centred: Tensor,
        variance: Tensor,  # noqa: ARG002
        deviation: Tensor,
        weight: float,
    ) -> Tensor:
        """Return weight·(x − E)/Std of a pair in training mode, from the statistics of the mini-batch."""
        return centred * (weight / deviation)

    def update_history(self, mean: Tensor, deviation: Tensor, variance: Tensor, values_per_batch: int) -> None:
        """Add the statistics of a training step to the history, in methods that have one.

        Called at every training step while `records_history` is true.
        """

    def history_estimates(self) -> dict[str, LayerMoments]:
        """Return the population estimates from the layer's own history of training."""
        return {}

    def _record(self, statistics: list[Tensor], x: Tensor) -> None:
        """Pass the statistics to the accumulators and, in training, to the layer's history."""
        is_recorded = self.training and self.records_history
        values_per_batch = x.numel() // self.num_features
        for accumulator in self.accumulators:
            if is_recorded or accumulator.in_evaluation:
                accumulator.update(statistics, x.shape[0], values_per_batch)
        if is_recorded:
            self.population_outdated = True
            if self.has_history:
                self.update_history(statistics[0], statistics[1], statistics[2], values_per_batch)
