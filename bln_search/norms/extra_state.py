"""Numbers of a normalization layer that its state dict stores beside its tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import NormalizedAxes

_STATE_FORMAT = 2
"""First number of a layer's extra state. Earlier formats begin with a letter and lack `population_outdated`."""

_BLEND_FORMAT = 3
"""First number of the extra state of a layer with blended statistics, whose weight follows the format."""

_LAYER_AXES_FORMAT = 4
"""First number of the extra state of a layer with statistics over the whole layer; one of the formats above follows."""


@dataclass(frozen=True)
class ExtraState:
    """Configuration and history of a layer.

    Attributes:
        configuration: at inference.
        blend: weight of the population in blended statistics; None without them.
        batch_size: m; None where it is not set.
        population_outdated: whether the network was trained after the population values were set.
        history: numbers of a method with a history.
        normalized_axes: over which feature statistics are averaged.
        is_earlier_format: whether an earlier version wrote the state.
    """

    configuration: InferenceConfiguration
    blend: PopulationWeight | None
    batch_size: int | None
    population_outdated: bool
    history: list[int]
    normalized_axes: NormalizedAxes = NormalizedAxes.POSITION
    is_earlier_format: bool = False

    def to_tensor(self) -> Tensor:
        """Return format, configuration (four letters), m (0 where unset), `population_outdated` and history.

        The weight of blended statistics, if any, is after the format: kind, and the bits of the number.
        """
        head = [_STATE_FORMAT] if self.blend is None else [_BLEND_FORMAT, *_encode_blend(self.blend)]
        if self.normalized_axes is NormalizedAxes.LAYER:
            head = [_LAYER_AXES_FORMAT, *head]
        letters = str(self.configuration).encode()
        return torch.tensor([*head, *letters, self.batch_size or 0, int(self.population_outdated), *self.history])

    @staticmethod
    def from_tensor(state: Tensor) -> ExtraState:
        """Return the state that `to_tensor` or an earlier version wrote."""
        numbers = state.tolist()
        blend, axes = None, NormalizedAxes.POSITION
        if numbers[0] == _LAYER_AXES_FORMAT:
            axes, numbers = NormalizedAxes.LAYER, numbers[1:]
        if numbers[0] == _BLEND_FORMAT:
            blend, numbers = _decode_blend(*numbers[1:3]), [_STATE_FORMAT, *numbers[3:]]
        earlier = numbers[0] != _STATE_FORMAT
        numbers = [*numbers[:5], 0, *numbers[5:]] if earlier else numbers[1:]
        letters, batch_size, outdated, *history = bytes(numbers[:4]).decode(), *numbers[4:]
        configuration = InferenceConfiguration(letters)
        return ExtraState(configuration, blend, batch_size or None, bool(outdated), history, axes, earlier)


def float_to_bits(value: float) -> int:
    """Return the bits of a number as a whole number."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


def float_from_bits(bits: int) -> float:
    """Return the number of `float_to_bits`."""
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def _encode_blend(blend: PopulationWeight) -> tuple[int, int]:
    """Return a blend as whole numbers: its kind, and the bits of its number."""
    return int(blend.is_prior), float_to_bits(blend.value)


def _decode_blend(is_prior: int, bits: int) -> PopulationWeight:
    """Return the blend of `_encode_blend`."""
    return PopulationWeight(float_from_bits(bits), bool(is_prior))
