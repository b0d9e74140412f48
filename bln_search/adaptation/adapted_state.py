"""What a method of adaptation changes in its network, to return to it."""

from __future__ import annotations

import torch
from torch import nn

from bln_search.evaluation.network_state import NetworkState
from bln_search.norms.normalization import Normalization


class AdaptedState:
    """Values of the parameters with a gradient, statistics of the normalization layers, and state of other modules.

    Args:
        network: In the state to which `restore` returns.
    """

    def __init__(self, network: nn.Module) -> None:
        self._parameters = [(x, x.detach().clone()) for x in network.parameters() if x.requires_grad]
        layers = [module for module in network.modules() if isinstance(module, Normalization)]
        self._layers = [(layer, layer.configured_state()) for layer in layers]
        self._others = NetworkState(network)

    @torch.no_grad()
    def restore(self) -> None:
        """Set the values, bit for bit, and begin the streams of moving statistics anew."""
        for parameter, value in self._parameters:
            parameter.copy_(value)
        for layer, state in self._layers:
            layer.restore_configured_state(state)
        self._others.restore()
