"""One normalization layer that stands for the layers of several networks of one structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import torch
from torch import nn

from bln_search.norms.normalization import Normalization


def stack_layers_of_networks(
    layers: Sequence[Normalization], parameters: Mapping[str, nn.Parameter | None]
) -> Normalization:
    """Return a layer of inputs (N, K, ...) that normalizes those of each network by their own statistics.

    Its statistics of training steps, and its history of them, are those of the layers, with the networks on the axis
    behind the examples.

    Args:
        layers: One of each network; equal but for their parameters and the values in their history.
        parameters: γ and β (K, ...) by name; None where the layers have none.
    """
    stacked = copy(layers[0])
    stacked.num_networks = len(layers)
    stacked.accumulators = []
    stacked._parameters = dict(parameters)
    stacked._buffers = dict.fromkeys(layers[0]._buffers)
    for name, leading_axes in stacked.history_buffers.items():
        values = [getattr(layer, name) for layer in layers]
        if values[0] is not None:
            setattr(stacked, name, torch.stack(values, leading_axes + 1))
    stacked.restore_extra_state_numbers(layers[0].list_extra_state_numbers())
    return stacked


def copy_history_to_layers(stacked: Normalization, layers: Sequence[Normalization]) -> None:
    """Give the layers of the networks the history of training steps that the layer `stacked` of all of them has."""
    numbers = stacked.list_extra_state_numbers()
    for index, layer in enumerate(layers):
        for name, leading_axes in stacked.history_buffers.items():
            value = getattr(stacked, name)
            setattr(layer, name, None if value is None else value.select(leading_axes + 1, index).clone())
        layer.restore_extra_state_numbers(numbers)
        layer.population_outdated = True
