"""The normalization layer: one implementation for all methods, which differ in statistics and branch weights."""

from __future__ import annotations

from math import prod
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import InferenceConfiguration, training_configuration_of
from bln_search.core.enums import Semantics
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.norms.axes import InputAxes
from bln_search.norms.fused.function import list_recorded_statistics, normalize_fused_with_statistics
from bln_search.norms.fused.layout import FusedLayout, make_fused_layout
from bln_search.norms.fused.terms import NO_HISTORY, FusedTerms, HistoryTerm
from bln_search.norms.mixture import mix_means, mix_variances
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.enumeration import normalize_all_rows
from bln_search.norms.row_batching.row_tensor import RowBatchedTensor, remove_row_tag, tag_with_rows
from bln_search.norms.statistics import mean_and_centred_and_variance


class NormalizationOptions(TypedDict, total=False):
    """Optional arguments of every normalization layer; see `Normalization`."""

    semantics: Semantics | str
    epsilon: float | None
    feature_axis: int | None
    batch_size: int | None


class Normalization(NormalizationBase):
    """y = γ·( w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F ) + β, with the weights of the method.

    In training mode all statistics come from the mini-batch (MBN, BRN and the methods with source A: see there). In
    evaluation mode the `configuration` names the source of each: the mini-batch, the population value set by
    `configure`, both, the memory or the weights. With source E a forward pass in evaluation mode changes
    `moving_values`, which `configure` and `reset_stream` delete.
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

    def __init__(self, num_features: int, **layer: Unpack[NormalizationOptions]) -> None:
        super().__init__(num_features, **layer)
        self.accumulators: list[MomentAccumulator] = []
        self.records_history = True
        self.uses_fused_kernels = False
        """Compute training steps with `fused`; outputs differ in the last digits."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x`; an input with a row tag of the one-pass evaluation is normalized under all rows.

        Statistics of half-precision inputs are computed in single precision, as in torch's own layers.
        """
        if x.dtype in (torch.float16, torch.bfloat16):
            return self.forward(x.float()).to(self.output_dtype(x))
        if self.observe_call is not None:
            self.observe_call(self, x)
        if isinstance(x, RowBatchedTensor):
            accumulators = [accumulator for accumulator in self.accumulators if accumulator.in_evaluation]
            return self._normalize_mini_batches(x, accumulators) if accumulators else normalize_all_rows(self, x)
        self.check_input(x)
        axes = self.input_axes(x.ndim)
        layout = self.find_fused_layout(x, axes)
        if layout is not None:
            return self._normalize_fused(x, axes, layout)
        configuration = self.configuration
        if self.training:
            configuration = self.training_configuration or training_configuration_of(self.method)
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
        self._record_statistics(statistics, x)
        shape = self.broadcast_parameter_shape(x.ndim)
        total = branches[0] if len(branches) == 1 else branches[0] + branches[1]
        return torch.addcmul(self.bias.view(shape), total, self.weight.view(shape))

    def find_fused_layout(self, x: Tensor, axes: InputAxes) -> FusedLayout | None:
        """Return how the fused kernels read the input of a training step; None where they are not used."""
        if not (self.training and self.uses_fused_kernels and self.has_fused_kernels):
            return None
        if self.training_configuration is not None or self.has_parameters_of_units or x.dtype is not self.weight.dtype:
            return None
        return make_fused_layout(x.shape, axes)

    def _normalize_fused(self, x: Tensor, axes: InputAxes, layout: FusedLayout) -> Tensor:
        """Normalize a mini-batch of training with the fused kernels."""
        batch_weight, feature_weight = self.branch_weights(self.batch_size or x.shape[0])
        count, variant = layout.num_values_of_channel, self.formula_variant
        terms = FusedTerms(
            variant.epsilon,
            batch_weight if self.has_batch_statistics else None,
            feature_weight if self.has_feature_statistics else None,
            count / max(count - 1, 1) if variant.unbiased else 1.0,
            self.make_history_term(count),
        )
        output, batch, feature = normalize_fused_with_statistics(x, self.weight, self.bias, layout, terms)
        statistics: list[Tensor] = []
        if self.accumulators or (self.records_history and self.has_history):
            statistics = list_recorded_statistics(batch, feature, variant.epsilon, x.shape, axes)
        self._record_statistics(statistics, x)
        return output

    def make_history_term(self, values_per_batch: int) -> HistoryTerm:  # noqa: ARG002 - for methods with a history
        """Return how values of earlier steps enter a training step.

        Args:
            values_per_batch: Number of values of a feature in the mini-batch.
        """
        return NO_HISTORY

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
        sources = configuration.source_of(pair[0]), configuration.source_of(pair[1])
        population = (
            self.resolve_stored_value(pair[0], sources[0], x),
            self.resolve_stored_value(pair[1], sources[1], x),
        )
        is_mixed = sources[0].mixes_stored_value_and_mini_batch or sources[1].mixes_stored_value_and_mini_batch
        is_recorded = bool(self.accumulators) or (self.training and self.records_history and self.has_history)
        if population[0] is not None and population[1] is not None and not is_mixed and not is_recorded:
            return (x - population[0]) * (weight / population[1])
        mean, centred, variance, batch_deviation = self._mini_batch_pair(x, axes, statistics)
        if (
            self.training
            and self.training_configuration is None
            and not any(source.reads_stored_value for source in sources)
        ):
            return self.normalize_branch_in_training(x, mean, centred, variance, batch_deviation, weight)
        selected_mean, deviation = population
        prior = self.stored_memory_mean_and_weight if is_mixed else None
        mixtures = [self.find_mixture(source, self.blend, prior) for source in sources]
        count = self.input_axes(x.ndim).num_values_per_feature(x.shape)
        if selected_mean is not None:
            if mixtures[0] is not None:
                selected_mean = mix_means(mean, selected_mean, mixtures[0].stored_share(x.shape[0], count))
                self.move_stored_value(pair[0], sources[0], selected_mean)
            if self.formula_variant.around_selected_mean:
                around_selected = (x - selected_mean).square().mean(axes, keepdim=True)
                batch_deviation = torch.sqrt(around_selected + self.formula_variant.epsilon)
        if deviation is None:
            deviation = batch_deviation
        elif mixtures[1] is not None:
            between = prior if mixtures[1].has_between_variance else None
            distance = None if between is None else mean - between.mean.view_as(mean)
            share = mixtures[1].stored_share(x.shape[0], count)
            deviation = mix_variances(batch_deviation.square(), deviation.square(), share, distance).sqrt()
            self.move_stored_value(pair[1], sources[1], deviation)
        return (centred if selected_mean is None else x - selected_mean) * (weight / deviation)

    def _mini_batch_pair(
        self, x: Tensor, axes: tuple[int, ...], statistics: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean, x minus mean, variance and deviation of a pair over `axes`.

        Mean, deviation and variance are appended to `statistics` as they are recorded: the deviation without the factor
        of an unbiased variance.
        """
        mean, centred, variance = mean_and_centred_and_variance(x, axes)
        recorded = torch.sqrt(variance + self.formula_variant.epsilon)
        statistics += [mean, recorded, variance]
        if not self.formula_variant.unbiased:
            return mean, centred, variance, recorded
        count = prod(x.shape[axis] for axis in axes)
        return mean, centred, variance, self.formula_variant.compute_batch_deviation(variance, count)

    def normalize_branch_in_training(
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

    def moments_by_estimate_from_history(self) -> dict[str, LayerMoments]:
        """Return the population estimates from the layer's own history of training."""
        return {}

    def _record_statistics(self, statistics: list[Tensor], x: Tensor) -> None:
        """Pass the statistics to the accumulators and, in training, to the layer's history."""
        is_recorded = self.training and self.records_history
        values_per_batch = self.input_axes(x.ndim).num_values_per_feature(x.shape)
        for accumulator in self.accumulators:
            if is_recorded or accumulator.in_evaluation:
                accumulator.update(statistics, x.shape[0], values_per_batch)
        if is_recorded:
            self.population_outdated = True
            if self.has_history:
                self.update_history(statistics[0], statistics[1], statistics[2], values_per_batch)

    def _normalize_mini_batches(self, x: RowBatchedTensor, accumulators: list[MomentAccumulator]) -> RowBatchedTensor:
        """Normalize several mini-batches with statistics of their own, and pass these to the accumulators."""
        layout, plain = x.batch_layout, remove_row_tag(x)
        self.check_input(plain)
        axes = self.input_axes(plain.ndim)
        mini_batches = plain.reshape(layout.groups, layout.size, *plain.shape[1:])
        weights = self.branch_weights(self.batch_size or layout.size)
        statistics: list[Tensor] = []
        branches: list[Tensor] = []
        for has_pair, weight, reduced in (
            (self.has_batch_statistics, weights[0], axes.batch_reduction_axes),
            (self.has_feature_statistics, weights[1], axes.feature_reduction_axes),
        ):
            if has_pair:
                shifted = tuple(axis + 1 for axis in reduced)
                _, centred, _, deviation = self._mini_batch_pair(mini_batches, shifted, statistics)
                branches.append(centred.mul_(weight / deviation))
        values_per_batch = axes.num_values_per_feature(mini_batches.shape[1:])
        for accumulator in accumulators:
            accumulator.update_with_several(statistics, layout.size, values_per_batch)
        shape = self.broadcast_parameter_shape(plain.ndim)
        total = branches[0] if len(branches) == 1 else branches[0].add_(branches[1])
        output = torch.addcmul(self.bias.view(shape), total.view(plain.shape), self.weight.view(shape))
        return tag_with_rows(output, layout, 1)
