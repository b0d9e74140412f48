"""The base class of normalization layers: γ and β, the configuration, and population values."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration, training_configuration_of
from bln_search.core.enums import Correction, MbnStatisticSource, NormalizedAxes, Semantics
from bln_search.core.errors import ModelError
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Method, Statistic, StatisticSource
from bln_search.norms.axes import InputAxes, check_num_features, determine_input_axes
from bln_search.norms.formula_variant import FormulaVariant
from bln_search.norms.layer_state import BUFFERS, LayerStateBase, Origins
from bln_search.norms.mixture import MemoryMeanAndWeight, StoredAndMiniBatchMixture
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.moving_values import move_value
from bln_search.norms.statistics import LayerPopulation, compute_population_pair
from bln_search.norms.unequal_epsilon import NeverEqualEpsilon

_OUTDATED_WARNING = (
    "this layer uses population values that were set before the network was trained further: evaluate the network "
    "again and apply a row of the new table"
)


class NormalizationBase(LayerStateBase):
    """State and configuration of a normalization layer; `Normalization` adds the computation."""

    formula_variants: ClassVar[Mapping[Semantics, FormulaVariant]]
    has_history: bool = False
    """Whether `update_history` records the statistics of training steps."""
    history_buffers: ClassVar[Mapping[str, int]] = {}
    """Buffers that `update_history` changes, with the number of their axes before those of a statistic."""
    has_fused_kernels: ClassVar[bool] = False
    """Whether training steps of this method can be computed with the kernels of `fused`."""
    observe_call: Callable[[NormalizationBase, Tensor], None] | None = None
    """Called with the layer and its input before a forward pass."""
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
        self.num_networks: int | None = None
        """K, in the layer that stands for those of K networks: inputs (N, K, ...), γ and β (K, ...); None for one."""
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.configuration = training_configuration_of(self.method)
        self.training_configuration: InferenceConfiguration | None = None
        """Sources of the statistics in training mode; None for the method's own rule, from the mini-batch."""
        self.blend: PopulationWeight | None = None
        self.memory_sources: tuple[MbnStatisticSource, ...] = ()
        """The sources of a memory that configurations are enumerated with."""
        self.prior_values: float | None = None
        """Number of values for which the memory counts beside a mini-batch; None where no configuration needs it."""
        self.origins: Origins = {}
        self.population_outdated = False
        self.replaces_torch_layer = False
        for name in BUFFERS.values():
            self.register_buffer(name, None)

    @abstractmethod
    def branch_weights(self, batch_size: int) -> tuple[float, float]:
        """Return the weights of the mini-batch branch and of the feature branch at the mini-batch size m."""

    @property
    def reproduces_replaced_layer_outputs(self) -> bool:
        """Whether this layer gives the same outputs as the torch layer that it replaced.

        Only a layer converted with preserved outputs (`replaces_torch_layer`) can match.
        """
        return False

    @property
    def eps(self) -> float:
        """ε under the name of torch's own layers; use it in computations, not in comparisons."""
        return NeverEqualEpsilon(self.formula_variant.epsilon)

    @eps.setter
    def eps(self, value: float) -> None:
        """Set ε; population deviations that were applied keep the ε with which they were computed."""
        self.formula_variant = replace(self.formula_variant, epsilon=float(value))

    @property
    def has_batch_statistics(self) -> bool:
        """Whether the method uses mini-batch statistics."""
        return BATCH_STATISTICS[0] in self.method.statistics

    @property
    def has_feature_statistics(self) -> bool:
        """Whether the method uses feature statistics."""
        return FEATURE_STATISTICS[0] in self.method.statistics

    def input_axes(self, ndim: int) -> InputAxes:
        """Return the axes of an input of `ndim` dimensions."""
        return determine_input_axes(
            ndim,
            self.feature_axis,
            pools_positions=self.formula_variant.pools_positions,
            normalized_axes=self.normalized_axes,
            num_networks=self.num_networks,
        )

    @property
    def has_parameters_of_units(self) -> bool:
        """Whether there is one γ and one β for each channel at each position, not only for each channel."""
        return self.weight.ndim > (1 if self.num_networks is None else 2)

    def broadcast_parameter_shape(self, ndim: int) -> tuple[int, ...]:
        """Return the shape in which γ and β broadcast against an input of `ndim` dimensions."""
        return self.input_axes(ndim).broadcast_shape(self.num_features)

    def output_dtype(self, x: Tensor) -> torch.dtype:
        """Return the dtype of the output for a half-precision input: that of the input, as in torch's layers.

        Under autocast it is at least that of the parameters.
        """
        device = x.device.type
        if self.bias is not None and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            return torch.promote_types(x.dtype, self.bias.dtype)
        return x.dtype

    def check_input(self, x: Tensor) -> None:
        """Raise ModelError unless the layer can normalize `x` (N, ...)."""
        check_num_features(x, self.input_axes(x.ndim), self.num_features)

    def find_configured_value(self, statistic: Statistic) -> Tensor | None:
        """Return the value of `statistic` that `configure` set; None where none is set."""
        value: Tensor | None = getattr(self, BUFFERS[statistic])
        return value

    def has_configured_value_from(self, statistic: Statistic, source: StatisticSource) -> bool:
        """Return whether `configure` set a value of `statistic` that comes from `source`."""
        return (
            self.find_configured_value(statistic) is not None and self.origins.get(statistic) is source.fixed_estimate
        )

    def resolve_stored_value(self, statistic: Statistic, source: StatisticSource, x: Tensor) -> Tensor | None:
        """Return the stored value of `statistic` at inference; None where it is computed from the mini-batch alone.

        A value with one entry for each slot is cut to the size of the mini-batch. Warns (UserWarning) of outdated
        population values.

        Raises:
            ModelError: the layer has no such value, or it is for smaller mini-batches or other positions than `x` has.
        """
        if not source.reads_stored_value:
            return None
        value = self._find_stored_value(statistic, source)
        if value is None or self.origins.get(statistic) is not source.fixed_estimate:
            origin = source.fixed_estimate or "population"
            raise ModelError(
                f"configuration {self.configuration} takes {statistic} from the {origin}, but this layer has no such "
                "value: call apply_configuration with an estimated population, or train first"
            )
        if self.population_outdated and not self.training:
            warnings.warn(_OUTDATED_WARNING, stacklevel=2)
        self.check_population_positions(value, x.shape)
        value = value.view(*value.shape, *[1] * (x.ndim - value.ndim))
        if value.shape[0] == 1:
            return value
        if value.shape[0] < x.shape[0]:
            raise ModelError(
                f"the population of {statistic} has one value for each of {value.shape[0]} slots of a mini-batch, "
                f"the mini-batch has {x.shape[0]} examples: use mini-batches of at most {value.shape[0]}"
            )
        return value[: x.shape[0]]

    def _find_stored_value(self, statistic: Statistic, source: StatisticSource) -> Tensor | None:
        """Return the value that `configure` set or, at inference, the one to which mini-batches moved it."""
        moving = (self.moving_values or {}).get(statistic) if source.is_moving and not self.training else None
        return self.find_configured_value(statistic) if moving is None else moving

    def move_stored_value(self, statistic: Statistic, source: StatisticSource, blended: Tensor) -> None:
        """Replace the moving value of a statistic of source E by the one with which a mini-batch is normalized.

        Args:
            statistic: of the layer.
            source: its source; others than E change nothing, and no source does in training mode.
            blended: the value, in a shape that broadcasts against the input.

        Raises:
            ModelError: the layer is a copy for one device of `DataParallel`, which is dropped after the pass.
        """
        if source.is_moving and not self.training:
            if getattr(self, "_is_replica", False):
                raise ModelError(
                    f"configuration {self.configuration} moves with each mini-batch, and DataParallel copies the layer "
                    "for each of them: call the network without DataParallel, on one device"
                )
            previous = self._find_stored_value(statistic, source)
            assert previous is not None
            self.moving_values = {**(self.moving_values or {}), statistic: move_value(statistic, previous, blended)}

    def find_mixture(
        self,
        source: StatisticSource,
        blend: PopulationWeight | None,
        prior: MemoryMeanAndWeight | None,  # noqa: ARG002 - for sources of subclasses
    ) -> StoredAndMiniBatchMixture | None:
        """Return how a statistic of `source` is computed from a stored value and the mini-batch; None where it is not.

        Args:
            source: of the statistic.
            blend: weight of the stored value, for sources B and E.
            prior: weight of the stored value, for a source with a weight of its own.
        """
        has_blend = source.description.has_row_weight and blend is not None
        return StoredAndMiniBatchMixture(blend) if has_blend else None

    @property
    def stored_memory_mean_and_weight(self) -> MemoryMeanAndWeight | None:
        """The weight that `configure` stored beside the values; None where the configuration needs none."""
        return None

    def check_population_positions(self, value: Tensor, shape: torch.Size) -> None:
        """Raise ModelError where a population value has other positions than an input of `shape` (N, ...)."""
        if self.formula_variant.pools_positions or value.ndim != len(shape):
            return
        feature = self.input_axes(len(shape)).feature
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
            batch = compute_population_pair(moments.batch, count, self.formula_variant, correction)
        if moments.feature is not None:
            slots = self.input_axes(moments.feature.mean.ndim).population_pooling_axes
            pooled_axes = tuple(axis for axis in slots if axis != 0) if per_slot else slots
            feature_moments = moments.feature.pooled_over(pooled_axes) if pooled_axes else moments.feature
            feature = compute_population_pair(
                feature_moments, self.feature_bessel_count(moments), self.formula_variant, correction
            )
        prior = None
        if batch is not None and moments.prior_values is not None:
            prior = MemoryMeanAndWeight(batch.mean, moments.prior_values)
        return LayerPopulation(batch, feature, prior)

    def feature_bessel_count(self, moments: LayerMoments) -> int:
        """Return n in the correction n/(n-1) of the feature deviation: the mini-batch size (BLN paper, Eq. 21)."""
        return moments.batch_size

    def configure(
        self,
        configuration: InferenceConfiguration,
        population: LayerPopulation | None = None,
        blend: PopulationWeight | None = None,
    ) -> None:
        """Use `configuration` at inference, with the values of `population` for statistics of source T, B and E.

        A stream of moving statistics (source E) begins anew.

        Args:
            configuration: of this method or of one with more statistics.
            population: population values; None to keep the present ones.
            blend: weight of the stored value in statistics of source B and E; None to keep the present one.

        Raises:
            ModelError: the configuration is of another method or has no value under this population.
        """
        restricted = configuration.restricted_to_statistics_of(self.method)
        if not restricted.fits_method(self.method):
            raise ModelError(f"configuration {configuration} does not name the statistics of a {self.method} layer")
        blend = blend or self.blend
        if restricted.uses_blend and blend is None:
            raise ModelError(
                f"configuration {configuration} blends population and mini-batch, and this layer has no weight: apply "
                "a row of a ranked table with blends (B) or moving statistics (E)"
            )
        reason = population.find_undefined_reason(restricted) if population is not None else None
        if reason is not None:
            raise ModelError(f"configuration {configuration} has no value in this layer: {reason}")
        self.configuration = restricted
        self.blend = blend if restricted.uses_blend else None
        self.moving_values = None
        if population is not None:
            self.origins = _estimates_of_stored_values(restricted, self.method)
            for statistic, value in population.value_by_statistic.items():
                buffer = None if value is None else value.to(self.weight.device, self.statistics_dtype, copy=True)
                setattr(self, BUFFERS[statistic], buffer)
            self.population_outdated = False

    def drop_unused_populations(self) -> None:
        """Delete the population values that the configuration does not use."""
        for statistic, name in BUFFERS.items():
            if not self.configuration.source_of(statistic).reads_stored_value:
                setattr(self, name, None)

    def extra_repr(self) -> str:
        """Return number of features, configuration and ε."""
        return f"{self.num_features}, configuration={self.configuration}, epsilon={self.formula_variant.epsilon}"


def _estimates_of_stored_values(configuration: InferenceConfiguration, method: Method) -> Origins:
    """Return the estimates of the values that `select_layer_population` selects, without those of the population.

    A mini-batch statistic beside a statistic of such an estimate is given a value of the same estimate.
    """
    fallback = None if configuration.uses_population else next(iter(configuration.estimates_named_by_letters), None)
    origins = {}
    for statistic in method.statistics:
        source = configuration.source_of(statistic)
        estimate = source.fixed_estimate or (None if source.reads_population else fallback)
        if estimate is not None:
            origins[statistic] = estimate
    return origins
