"""What a normalization layer holds: γ and β, the configuration, population values, and its state for a state dict."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.configuration import (
    BATCH_STATISTICS,
    FEATURE_STATISTICS,
    InferenceConfiguration,
    Method,
    Source,
    Statistic,
    mini_batch_configuration,
)
from bln_search.core.enums import Correction, Semantics
from bln_search.core.errors import ModelError
from bln_search.norms.axes import Axes, find_axes
from bln_search.norms.formula_variant import Reading
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.statistics import LayerPopulation, PopulationPair, population_pair

_BUFFERS = {
    Statistic.BATCH_MEAN: "population_batch_mean",
    Statistic.BATCH_DEVIATION: "population_batch_deviation",
    Statistic.FEATURE_MEAN: "population_feature_mean",
    Statistic.FEATURE_DEVIATION: "population_feature_deviation",
}

_STALE = (
    "population values are read that were put in before the network was trained further: evaluate it again, and apply "
    "a row of the new table"
)

_STATE_FORMAT = 2
"""First number of a layer's extra state. Earlier states begin with a letter and do not hold `stale`."""

Snapshot = tuple[InferenceConfiguration, frozenset[Statistic], bool, list[Tensor | None]]
"""What `configure` changes: configuration, which values are from the memory, whether trained since, the values."""


class _Epsilon(float):
    """ε, unequal to every number.

    Where the ε of its two norms are equal, `nn.TransformerEncoderLayer` computes a LayerNorm from γ, β and ε in
    evaluation mode and never calls them.
    """

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class NormalizationBase(nn.Module):
    """A normalization layer without its computation, `Normalization`."""

    method: ClassVar[Method]
    readings: ClassVar[Mapping[Semantics, Reading]]
    dynamic_buffers: ClassVar[tuple[str, ...]] = tuple(_BUFFERS.values())
    """Buffers that have no value, and so no shape, before something is put into them."""
    needs_own_estimate: ClassVar[bool] = True
    """Is an estimate that layers gather by themselves of no use where a layer of this method has none?"""

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
        reading = self.readings[Semantics(semantics)]
        if num_features < 1:
            raise ModelError(f"a normalization layer needs at least one feature, not {num_features}")
        if batch_size is not None and batch_size < 1:
            raise ModelError(f"the mini-batch size of a normalization layer is at least 1, not {batch_size}")
        self.num_features = num_features
        self.reading = reading if epsilon is None else replace(reading, epsilon=epsilon)
        self.feature_axis = feature_axis
        self.batch_size = batch_size
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.configuration = mini_batch_configuration(self.method)
        self.from_memory: frozenset[Statistic] = frozenset()
        self.stale = False
        self.replaces = False
        for name in _BUFFERS.values():
            self.register_buffer(name, None)

    @abstractmethod
    def factors(self, m: int) -> tuple[float, float]:
        """What the mini-batch part and the feature part are multiplied by, given the mini-batch size m."""

    @property
    def answers_as_before(self) -> bool:
        """Does this layer answer as the one that it `replaces`, a layer of torch whose answers it was made to keep?"""
        return False

    @property
    def eps(self) -> float:
        """ε, under the name that torch's own layers give it; to be computed with, not compared."""
        return _Epsilon(self.reading.epsilon)

    @property
    def has_batch(self) -> bool:
        """Does the method keep mini-batch statistics?"""
        return BATCH_STATISTICS[0] in self.method.statistics

    @property
    def has_feature(self) -> bool:
        """Does the method keep feature statistics?"""
        return FEATURE_STATISTICS[0] in self.method.statistics

    @property
    def statistics_dtype(self) -> torch.dtype:
        """Of population values: that of the weights, single precision where these have less."""
        return torch.promote_types(self.weight.dtype, torch.float32)

    def axes(self, ndim: int) -> Axes:
        """The axes of an input of `ndim` dimensions."""
        return find_axes(ndim, self.feature_axis, pools_positions=self.reading.pools_positions)

    def configured_value(self, statistic: Statistic) -> Tensor | None:
        """What `configure` put in for `statistic`, None for nothing."""
        value: Tensor | None = getattr(self, _BUFFERS[statistic])
        return value

    def is_configured(self, statistic: Statistic, source: Source) -> bool:
        """Has `configure` put in a value of `statistic` that is from `source`?"""
        from_memory = statistic in self.from_memory
        return getattr(self, _BUFFERS[statistic]) is not None and from_memory == (source is Source.MEMORY)

    def inference_value(self, statistic: Statistic, source: Source, x: Tensor) -> Tensor | None:
        """What was put in for `statistic`, one row a slot cut to the mini-batch at hand; None for the mini-batch's."""
        if source not in (Source.POPULATION, Source.MEMORY):
            return None
        value: Tensor | None = getattr(self, _BUFFERS[statistic]) if self.is_configured(statistic, source) else None
        if value is None:
            place = "population" if source is Source.POPULATION else "memory"
            raise ModelError(
                f"configuration {self.configuration} takes {statistic} from the {place}, which this layer was never "
                "given: call apply_configuration with an estimated population, or train first"
            )
        if self.stale:
            warnings.warn(_STALE, stacklevel=2)
        self.check_positions(value, x.shape)
        value = value.view(*value.shape, *[1] * (x.ndim - value.ndim))
        if value.shape[0] == 1:
            return value
        if value.shape[0] < x.shape[0]:
            raise ModelError(
                f"the population of {statistic} has one value for each of {value.shape[0]} slots of a mini-batch, "
                f"the mini-batch at hand has {x.shape[0]} examples: use mini-batches of {value.shape[0]} at most"
            )
        return value[: x.shape[0]]

    def check_positions(self, value: Tensor, shape: torch.Size) -> None:
        """Raise ModelError where a value by position is of other positions than an input (N, ...) has."""
        if self.reading.pools_positions or value.ndim != len(shape):
            return
        feature = self.axes(len(shape)).feature
        for axis in range(1, len(shape)):
            if axis != feature and value.shape[axis] != shape[axis]:
                raise ModelError(
                    f"the population has values for {value.shape[axis]} positions along axis {axis}, an input of shape "
                    f"{tuple(shape)} has {shape[axis]}: in the reference reading inputs keep the size that the "
                    "population was estimated with"
                )

    def population(
        self, gathered: GatheredMoments, correction: Correction, *, per_slot: bool = False
    ) -> LayerPopulation:
        """Population values from what a gatherer gathered.

        per_slot: keep feature values one a slot of the mini-batch; otherwise pooled over slots (and, in the paper's
        reading, over positions).
        """
        count = gathered.values if self.reading.counts_positions else gathered.batch_size
        batch = feature = None
        if gathered.batch is not None:
            batch = population_pair(gathered.batch, count, self.reading, correction)
        if gathered.feature is not None:
            slots = self.axes(gathered.feature.mean.ndim).slots
            kept = tuple(axis for axis in slots if axis != 0) if per_slot else slots
            moments = gathered.feature.averaged(kept) if kept else gathered.feature
            feature = population_pair(moments, gathered.batch_size, self.reading, correction)
        return LayerPopulation(batch, feature)

    def configure(self, configuration: InferenceConfiguration, population: LayerPopulation | None = None) -> None:
        """Use `configuration` at inference, with the values of `population` where it says T.

        Raises ModelError where the configuration is of another method or has no value under this population.
        """
        if any(configuration.source(statistic) not in self.method.sources for statistic in self.method.statistics):
            raise ModelError(f"configuration {configuration} does not name the statistics of a {self.method} layer")
        own = configuration.restricted_to(self.method)
        reason = population.undefined(own) if population is not None else None
        if reason is not None:
            raise ModelError(f"configuration {configuration} has no value here: {reason}")
        self.configuration = own
        if population is not None:
            own_values = frozenset(s for s in self.method.statistics if own.source(s) is not Source.POPULATION)
            self.from_memory = own_values if own.uses_memory else frozenset()
            self._store(BATCH_STATISTICS, population.batch)
            self._store(FEATURE_STATISTICS, population.feature)
            self.stale = False

    def drop_unread(self) -> None:
        """Give up the population values that the configuration does not read."""
        for statistic, name in _BUFFERS.items():
            if self.configuration.source(statistic) not in (Source.POPULATION, Source.MEMORY):
                setattr(self, name, None)

    def _store(self, statistics: tuple[Statistic, Statistic], pair: PopulationPair | None) -> None:
        values = (None, None) if pair is None else (pair.mean, pair.deviation)
        for statistic, value in zip(statistics, values, strict=True):
            stored = None if value is None else value.to(self.weight.device, self.statistics_dtype, copy=True)
            setattr(self, _BUFFERS[statistic], stored)

    def snapshot(self) -> Snapshot:
        """The present configuration and population values, for `restore`."""
        return self.configuration, self.from_memory, self.stale, [getattr(self, name) for name in _BUFFERS.values()]

    def restore(self, snapshot: Snapshot) -> None:
        """What `snapshot` returned."""
        self.configuration, self.from_memory, self.stale, values = snapshot
        for name, value in zip(_BUFFERS.values(), values, strict=True):
            setattr(self, name, value)

    def own_state(self) -> list[int]:
        """Numbers that a method with a history needs back from a state dict."""
        return []

    def set_own_state(self, state: list[int]) -> None:
        """What `own_state` returned."""

    def upgrade_buffers(self) -> None:
        """Bring buffers of a state dict of an earlier format to this one; called when all of it is loaded."""

    def get_extra_state(self) -> Tensor:
        """The format, the configuration as four letters, m (0 where it is not set), stale, the method's own numbers."""
        letters = str(self.configuration).encode()
        return torch.tensor([_STATE_FORMAT, *letters, self.batch_size or 0, int(self.stale), *self.own_state()])

    def set_extra_state(self, state: Tensor) -> None:
        """Take configuration, m and stale back from a state dict. Raises ModelError for one of another method."""
        numbers = state.tolist()
        earlier = numbers[0] != _STATE_FORMAT
        numbers = [*numbers[:5], 0, *numbers[5:]] if earlier else numbers[1:]
        letters, batch_size, stale, *own = bytes(numbers[:4]).decode(), *numbers[4:]
        configuration = InferenceConfiguration(letters)
        if not configuration.fits(self.method):
            raise ModelError(f"this state says {configuration}, which is not for a {self.method} layer")
        self.configuration, self.batch_size, self.stale = configuration, batch_size or None, bool(stale)
        self.set_own_state(own)
        if earlier:
            self.upgrade_buffers()

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        held = any(key.startswith(prefix) for key in state_dict)
        for name in self.dynamic_buffers if held else ():
            value = state_dict.get(prefix + name)
            empty = None if value is None else self.weight.new_empty(value.shape, dtype=self.statistics_dtype)
            setattr(self, name, empty)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """What distinguishes this layer."""
        return f"{self.num_features}, configuration={self.configuration}, epsilon={self.reading.epsilon}"
