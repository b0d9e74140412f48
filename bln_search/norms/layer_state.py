"""What a normalization layer stores: the entries of its state dict, and the state that `configure` changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration, training_configuration_of
from bln_search.core.enums import NormalizedAxes, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method, Statistic
from bln_search.norms.extra_state import ExtraState
from bln_search.norms.moving_values import MovingValues

BUFFERS = {
    Statistic.BATCH_MEAN: "population_batch_mean",
    Statistic.BATCH_DEVIATION: "population_batch_deviation",
    Statistic.FEATURE_MEAN: "population_feature_mean",
    Statistic.FEATURE_DEVIATION: "population_feature_deviation",
}

Origins = Mapping[Statistic, PopulationEstimate]
"""The estimate of each stored value that a letter such as `M` names; the others are of the population."""

_ESTIMATES = list(PopulationEstimate)

ConfiguredState = tuple[
    InferenceConfiguration,
    PopulationWeight | None,
    float | None,
    Origins,
    bool,
    MovingValues | None,
    list[Tensor | None],
]
"""State that `configure` changes: configuration, weight of blended statistics, that of the memory, origins of the
stored values, `population_outdated`, moving values, stored values.
"""


class LayerStateBase(nn.Module):
    """The stored state of a normalization layer; `NormalizationBase` sets it."""

    method: ClassVar[Method]
    dynamic_buffers: ClassVar[tuple[str, ...]] = tuple(BUFFERS.values())
    """Buffers that are None, without a shape, until they are assigned."""
    stored_buffers: ClassVar[tuple[str, ...]] = tuple(BUFFERS.values())
    """Buffers that `configure` sets."""
    weight_buffers: ClassVar[tuple[str, ...]] = ()
    """Dynamic buffers that belong to the weights, not to the population: a checkpoint stores them with the weights."""

    weight: nn.Parameter
    configuration: InferenceConfiguration
    blend: PopulationWeight | None
    batch_size: int | None
    prior_values: float | None
    origins: Origins
    population_outdated: bool
    normalized_axes: NormalizedAxes
    replaces_torch_layer: bool
    moving_values: MovingValues | None = None
    """Statistics of source E after the last mini-batch of a stream; None before its first one. They are replaced, never
    written, and no part of the state dict."""

    @property
    def statistics_dtype(self) -> torch.dtype:
        """The dtype of population values: that of the weights, at least single precision."""
        return torch.promote_types(self.weight.dtype, torch.float32)

    def configured_state(self) -> ConfiguredState:
        """Return the configuration and the population values, for `restore_configured_state`."""
        return (
            self.configuration,
            self.blend,
            self.prior_values,
            self.origins,
            self.population_outdated,
            self.moving_values,
            [getattr(self, name) for name in self.stored_buffers],
        )

    def restore_configured_state(self, state: ConfiguredState) -> None:
        """Restore the state that `configured_state` returned."""
        (
            self.configuration,
            self.blend,
            self.prior_values,
            self.origins,
            self.population_outdated,
            self.moving_values,
            values,
        ) = state
        for name, value in zip(self.stored_buffers, values, strict=True):
            setattr(self, name, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LayerStateBase:  # noqa: FBT001, FBT002 - as in torch
        """Move and convert the moving values, too."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.moving_values is not None:
            self.moving_values = {statistic: fn(value) for statistic, value in self.moving_values.items()}
        return self

    def reset_stream(self) -> None:
        """Let the next mini-batch be the first one of a stream of moving statistics (source E)."""
        self.moving_values = None

    def list_extra_state_numbers(self) -> list[int]:
        """Return the numbers that a method stores in the state dict: where a letter names it, the origin of each value.

        An origin is 1 + its place in `PopulationEstimate`, to which members are only added at the end; 0 for none.
        """
        origins = [self.origins.get(statistic) for statistic in self.method.statistics] if self.origins else []
        return [0 if origin is None else 1 + _ESTIMATES.index(origin) for origin in origins]

    def restore_extra_state_numbers(self, state: list[int]) -> None:
        """Restore the numbers that `list_extra_state_numbers` returned."""
        named = zip(self.method.statistics, state, strict=False)  # earlier versions wrote none
        self.origins = {statistic: _ESTIMATES[number - 1] for statistic, number in named if number}

    def upgrade_buffers_of_earlier_format(self) -> None:
        """Convert buffers of an earlier state dict format; called after the state dict is loaded."""

    def get_extra_state(self) -> Tensor:
        """Return the numbers that a state dict stores beside tensors, see `ExtraState`."""
        return ExtraState(
            self.configuration,
            self.blend,
            self.batch_size,
            self.population_outdated,
            self.list_extra_state_numbers(),
            self.normalized_axes,
        ).to_tensor()

    def set_extra_state(self, state: Tensor) -> None:
        """Restore what `get_extra_state` returned. Raises ModelError for a state of another method."""
        stored = ExtraState.from_tensor(state)
        if not stored.configuration.fits_method(self.method):
            raise ModelError(
                f"the state dict holds configuration {stored.configuration}, which does not fit a {self.method} layer"
            )
        self.configuration, self.batch_size, self.blend = stored.configuration, stored.batch_size, stored.blend
        self.population_outdated = stored.population_outdated
        self.normalized_axes = stored.normalized_axes
        self.restore_extra_state_numbers(stored.history)
        if stored.is_earlier_format:
            self.upgrade_buffers_of_earlier_format()

    def allocate_buffer(self, name: str, like: Tensor | None) -> None:
        """Make the buffer `name` an empty tensor of the shape of `like`; None where `like` is None."""
        empty = None if like is None else self.weight.new_empty(like.shape, dtype=self.statistics_dtype)
        setattr(self, name, empty)

    @property
    def configuration_of_replaced_layer(self) -> InferenceConfiguration:
        """The configuration in which a converted layer computes what the replaced layer does."""
        return training_configuration_of(self.method)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,  # noqa: FBT001 - torch passes it by position
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        is_in_state_dict = any(key.startswith(prefix) for key in state_dict)
        is_of_torch_layer = is_in_state_dict and f"{prefix}_extra_state" not in state_dict
        if is_of_torch_layer and strict and not self.replaces_torch_layer:
            error_msgs.append(
                f"the state dict holds {prefix.rstrip('.') or 'the layer'} as it was before the conversion to "
                f"{self.method}: load it into the network first, then convert the network"
            )
            return
        for name in self.dynamic_buffers if is_in_state_dict else ():
            self.allocate_buffer(name, state_dict.get(prefix + name))
        missing: list[str] = []
        # not super(): a converted layer is an instance of torch's class too, which would add buffers
        nn.Module._load_from_state_dict(
            self,
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing,
            unexpected_keys,
            error_msgs,
        )
        if is_of_torch_layer and self.replaces_torch_layer:
            self.configuration, self.blend, self.origins = self.configuration_of_replaced_layer, None, {}
            self.population_outdated = False
            missing = [key for key in missing if not self._is_absent_in_torch_layer(key.removeprefix(prefix))]
        missing_keys.extend(missing)

    def _is_absent_in_torch_layer(self, name: str) -> bool:
        """Whether a replaced layer has no such entry of its state dict; γ and β that are not trained are constants."""
        parameter = self._parameters.get(name)
        return name == "_extra_state" or (parameter is not None and not parameter.requires_grad)
