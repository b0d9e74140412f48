"""State of a normalization layer: γ and β, the configuration, population values, and the entries of its state dict."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.blend import Blend
from bln_search.core.configuration import (
    BATCH_STATISTICS,
    FEATURE_STATISTICS,
    InferenceConfiguration,
    Method,
    Source,
    Statistic,
    mini_batch_configuration,
)
from bln_search.core.enums import Correction, NormalizedAxes, Semantics
from bln_search.core.errors import ModelError
from bln_search.norms.axes import Axes, check_features, find_axes
from bln_search.norms.extra_state import ExtraState
from bln_search.norms.formula_variant import FormulaVariant
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.statistics import LayerPopulation, population_pair
from bln_search.norms.unequal_epsilon import UnequalEpsilon

_BUFFERS = {
    Statistic.BATCH_MEAN: "population_batch_mean",
    Statistic.BATCH_DEVIATION: "population_batch_deviation",
    Statistic.FEATURE_MEAN: "population_feature_mean",
    Statistic.FEATURE_DEVIATION: "population_feature_deviation",
}

_OUTDATED_WARNING = (
    "this layer uses population values that were set before the network was trained further: evaluate the network "
    "again and apply a row of the new table"
)

LayerState = tuple[InferenceConfiguration, Blend | None, frozenset[Statistic], bool, list[Tensor | None]]
"""State that `configure` changes: configuration, weight of blended statistics, statistics from the memory,
`population_outdated`, population values.
"""


class NormalizationBase(nn.Module):
    """State and configuration of a normalization layer; `Normalization` adds the computation."""

    method: ClassVar[Method]
    formula_variants: ClassVar[Mapping[Semantics, FormulaVariant]]
    dynamic_buffers: ClassVar[tuple[str, ...]] = tuple(_BUFFERS.values())
    """Buffers that are None, without a shape, until they are assigned."""
    has_history: ClassVar[bool] = False
    """Whether `update_history` records the statistics of training steps."""
    requires_layer_estimate: ClassVar[bool] = True
    """Whether an estimate from the layers' own history is usable only if each layer of this method has one."""

    def __init__(
        self,
        num_features: int,
        *,
        semantics: Semantics | str = Semantics.PAPER,
        epsilon: float | None = None,
        feature_axis: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        super().__init__()
        variant = self.formula_variants[Semantics(semantics)]
        if num_features < 1:
            raise ModelError(f"a normalization layer needs at least one feature, not {num_features}")
        if batch_size is not None and batch_size < 1:
            raise ModelError(f"the mini-batch size of a normalization layer is at least 1, not {batch_size}")
        self.num_features = num_features
        self.formula_variant = variant if epsilon is None else replace(variant, epsilon=epsilon)
        self.feature_axis = feature_axis
        self.batch_size = batch_size
        self.normalized_axes = NormalizedAxes.POSITION
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.configuration = mini_batch_configuration(self.method)
        self.training_configuration: InferenceConfiguration | None = None
        """Sources of the statistics in training mode; None for the method's own rule, from the mini-batch."""
        self.blend: Blend | None = None
        self.from_memory: frozenset[Statistic] = frozenset()
        self.population_outdated = False
        self.replaces_torch_layer = False
        for name in _BUFFERS.values():
            self.register_buffer(name, None)

    @abstractmethod
    def branch_weights(self, batch_size: int) -> tuple[float, float]:
        """Return the weights of the mini-batch branch and of the feature branch at the mini-batch size m."""

    @property
    def matches_replaced_layer(self) -> bool:
        """Whether this layer gives the same outputs as the torch layer that it replaced.

        Only a layer converted with preserved outputs (`replaces_torch_layer`) can match.
        """
        return False

    @property
    def eps(self) -> float:
        """ε under the name of torch's own layers; use it in computations, not in comparisons."""
        return UnequalEpsilon(self.formula_variant.epsilon)

    @property
    def has_batch_statistics(self) -> bool:
        """Whether the method uses mini-batch statistics."""
        return BATCH_STATISTICS[0] in self.method.statistics

    @property
    def has_feature_statistics(self) -> bool:
        """Whether the method uses feature statistics."""
        return FEATURE_STATISTICS[0] in self.method.statistics

    @property
    def statistics_dtype(self) -> torch.dtype:
        """The dtype of population values: that of the weights, at least single precision."""
        return torch.promote_types(self.weight.dtype, torch.float32)

    def axes(self, ndim: int) -> Axes:
        """Return the axes of an input of `ndim` dimensions."""
        return find_axes(
            ndim,
            self.feature_axis,
            pools_positions=self.formula_variant.pools_positions,
            normalized_axes=self.normalized_axes,
        )

    def parameter_shape(self, ndim: int) -> tuple[int, ...]:
        """Return the shape in which γ and β broadcast against an input of `ndim` dimensions."""
        return self.axes(ndim).broadcast_shape(self.num_features)

    def check_input(self, x: Tensor) -> None:
        """Raise ModelError unless the layer can normalize `x` (N, ...)."""
        check_features(x, self.axes(x.ndim), self.num_features)

    def configured_value(self, statistic: Statistic) -> Tensor | None:
        """Return the value of `statistic` that `configure` set; None where none is set."""
        value: Tensor | None = getattr(self, _BUFFERS[statistic])
        return value

    def is_configured(self, statistic: Statistic, source: Source) -> bool:
        """Return whether `configure` set a value of `statistic` that comes from `source`."""
        from_memory = statistic in self.from_memory
        return getattr(self, _BUFFERS[statistic]) is not None and from_memory == (source is Source.MEMORY)

    def inference_value(self, statistic: Statistic, source: Source, x: Tensor) -> Tensor | None:
        """Return the value of `statistic` at inference; None where it is computed from the mini-batch.

        A value with one entry for each slot is cut to the size of the mini-batch. Warns (UserWarning) of outdated
        population values.

        Raises:
            ModelError: the layer has no such value, or it is for smaller mini-batches or other positions than `x` has.
        """
        if not source.is_stored:
            return None
        value: Tensor | None = getattr(self, _BUFFERS[statistic]) if self.is_configured(statistic, source) else None
        if value is None:
            origin = "memory" if source is Source.MEMORY else "population"
            raise ModelError(
                f"configuration {self.configuration} takes {statistic} from the {origin}, but this layer has no such "
                "value: call apply_configuration with an estimated population, or train first"
            )
        if self.population_outdated and not self.training:
            warnings.warn(_OUTDATED_WARNING, stacklevel=2)
        self.check_positions(value, x.shape)
        value = value.view(*value.shape, *[1] * (x.ndim - value.ndim))
        if value.shape[0] == 1:
            return value
        if value.shape[0] < x.shape[0]:
            raise ModelError(
                f"the population of {statistic} has one value for each of {value.shape[0]} slots of a mini-batch, "
                f"the mini-batch has {x.shape[0]} examples: use mini-batches of at most {value.shape[0]}"
            )
        return value[: x.shape[0]]

    def check_positions(self, value: Tensor, shape: torch.Size) -> None:
        """Raise ModelError where a population value has other positions than an input of `shape` (N, ...)."""
        if self.formula_variant.pools_positions or value.ndim != len(shape):
            return
        feature = self.axes(len(shape)).feature
        for axis in range(1, len(shape)):
            if axis != feature and value.shape[axis] != shape[axis]:
                raise ModelError(
                    f"the population has values for {value.shape[axis]} positions along axis {axis}, an input of shape "
                    f"{tuple(shape)} has {shape[axis]}: with semantics `reference` all inputs must have the size that "
                    "the population was estimated with"
                )

    def compute_population(
        self, moments: LayerMoments, correction: Correction, *, per_slot: bool = False
    ) -> LayerPopulation:
        """Compute population values from moments over mini-batches.

        Args:
            moments: averages over mini-batches.
            correction: of the population variance.
            per_slot: keep one feature value for each slot of the mini-batch; otherwise pool over slots and, with
                semantics `paper`, over positions.
        """
        count = moments.values_per_batch if self.formula_variant.counts_positions else moments.batch_size
        batch = feature = None
        if moments.batch is not None:
            batch = population_pair(moments.batch, count, self.formula_variant, correction)
        if moments.feature is not None:
            slots = self.axes(moments.feature.mean.ndim).population_pooling_axes
            pooled_axes = tuple(axis for axis in slots if axis != 0) if per_slot else slots
            feature_moments = moments.feature.pooled_over(pooled_axes) if pooled_axes else moments.feature
            feature = population_pair(
                feature_moments, self.feature_bessel_count(moments), self.formula_variant, correction
            )
        return LayerPopulation(batch, feature)

    def feature_bessel_count(self, moments: LayerMoments) -> int:
        """Return n in the correction n/(n-1) of the feature deviation: the mini-batch size (BLN paper, Eq. 21)."""
        return moments.batch_size

    def configure(
        self,
        configuration: InferenceConfiguration,
        population: LayerPopulation | None = None,
        blend: Blend | None = None,
    ) -> None:
        """Use `configuration` at inference, with the values of `population` for statistics of source T and B.

        Args:
            configuration: of this method or of one with more statistics.
            population: population values; None to keep the present ones.
            blend: weight of the population in statistics of source B; None to keep the present one.

        Raises:
            ModelError: the configuration is of another method or has no value under this population.
        """
        possible = self.method.possible_source_letters + Source.BLEND
        if any(configuration.source(statistic) not in possible for statistic in self.method.statistics):
            raise ModelError(f"configuration {configuration} does not name the statistics of a {self.method} layer")
        restricted = configuration.restricted_to(self.method)
        blend = blend or self.blend
        if restricted.uses_blend and blend is None:
            raise ModelError(
                f"configuration {configuration} blends population and mini-batch, and this layer has no weight: apply "
                "a row of a ranked table with blends"
            )
        reason = population.undefined_reason(restricted) if population is not None else None
        if reason is not None:
            raise ModelError(f"configuration {configuration} has no value in this layer: {reason}")
        self.configuration = restricted
        self.blend = blend if restricted.uses_blend else None
        if population is not None:
            not_population = frozenset(
                statistic for statistic in self.method.statistics if not restricted.source(statistic).reads_population
            )
            self.from_memory = not_population if restricted.uses_memory else frozenset()
            for statistic, value in population.values.items():
                buffer = None if value is None else value.to(self.weight.device, self.statistics_dtype, copy=True)
                setattr(self, _BUFFERS[statistic], buffer)
            self.population_outdated = False

    def drop_unused_populations(self) -> None:
        """Delete the population values that the configuration does not use."""
        for statistic, name in _BUFFERS.items():
            if not self.configuration.source(statistic).is_stored:
                setattr(self, name, None)

    def layer_state(self) -> LayerState:
        """Return the configuration and the population values, for `restore`."""
        return (
            self.configuration,
            self.blend,
            self.from_memory,
            self.population_outdated,
            [getattr(self, name) for name in _BUFFERS.values()],
        )

    def restore(self, state: LayerState) -> None:
        """Restore the state that `layer_state` returned."""
        self.configuration, self.blend, self.from_memory, self.population_outdated, values = state
        for name, value in zip(_BUFFERS.values(), values, strict=True):
            setattr(self, name, value)

    def history_state(self) -> list[int]:
        """Return the numbers that a method with a history stores in the state dict."""
        return []

    def load_history_state(self, state: list[int]) -> None:
        """Restore the numbers that `history_state` returned."""

    def upgrade_buffers(self) -> None:
        """Convert buffers of an earlier state dict format; called after the state dict is loaded."""

    def get_extra_state(self) -> Tensor:
        """Return the numbers that a state dict stores beside tensors, see `ExtraState`."""
        return ExtraState(
            self.configuration,
            self.blend,
            self.batch_size,
            self.population_outdated,
            self.history_state(),
            self.normalized_axes,
        ).to_tensor()

    def set_extra_state(self, state: Tensor) -> None:
        """Restore what `get_extra_state` returned. Raises ModelError for a state of another method."""
        stored = ExtraState.from_tensor(state)
        if not stored.configuration.fits(self.method):
            raise ModelError(
                f"the state dict holds configuration {stored.configuration}, which does not fit a {self.method} layer"
            )
        self.configuration, self.batch_size, self.blend = stored.configuration, stored.batch_size, stored.blend
        self.population_outdated = stored.population_outdated
        self.normalized_axes = stored.normalized_axes
        self.load_history_state(stored.history)
        if stored.is_earlier_format:
            self.upgrade_buffers()

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        is_in_state_dict = any(key.startswith(prefix) for key in state_dict)
        for name in self.dynamic_buffers if is_in_state_dict else ():
            value = state_dict.get(prefix + name)
            empty = None if value is None else self.weight.new_empty(value.shape, dtype=self.statistics_dtype)
            setattr(self, name, empty)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """Return number of features, configuration and ε."""
        return f"{self.num_features}, configuration={self.configuration}, epsilon={self.formula_variant.epsilon}"
