"""Gains and biases for each unit: the positions of each layer, found by one forward pass."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.norms.feature_layer import FeatureStatisticsLayer
from bln_search.norms.network.layer_calls import observe_layer_calls
from bln_search.norms.network.layers import evaluation_mode


def expand_unit_parameters_to_inputs(network: nn.Module, example: Any) -> None:
    """Give the layers with affine `unit` of a network the positions of their inputs.

    Args:
        network: the network; without such layers it is not called.
        example: inputs of N examples, as the network takes them.
    """
    layers = [module for module in network.modules() if isinstance(module, FeatureStatisticsLayer)]
    layers = [layer for layer in layers if layer.can_expand_parameters]
    if not layers:
        return
    with ExitStack() as stack:
        stack.enter_context(observe_layer_calls(layers, _set_affine_shape))
        stack.enter_context(evaluation_mode(network))
        stack.enter_context(torch.no_grad())
        network(example)


def _set_affine_shape(layer: nn.Module, x: Tensor) -> None:
    assert isinstance(layer, FeatureStatisticsLayer)
    if layer.needs_expanded_parameters_for(x):
        feature = layer.input_axes(x.ndim).feature
        layer.expand_parameters_to_positions(tuple(x.shape[axis] for axis in range(1, x.ndim) if axis != feature))
