"""Initial weights.

Default, as in the BLN experiments: Glorot uniform convolutions, orthogonal dense layers, zero biases.
Networks with ReLUs (attribute `rectified`): normal, variance 2/fan-out for convolutions (He, Zhang, Ren & Sun 2015,
Eq. 14) and 2/fan-in for dense layers (Eq. 10).
Recurrent networks (attribute `glorot`): Keras's defaults, because the BLN experiments name no others: Glorot uniform
dense layers, and embeddings uniform in ±0.05. Recurrent layers initialize their own weights.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from bln_search.models.recurrent.layer import RecurrentLayer

_EMBEDDING_BOUND = 0.05


def initialize_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of `network` from `generator`; normalization layers keep γ = 1 and β = 0."""
    rectified, glorot = getattr(network, "rectified", False), getattr(network, "glorot", False)
    for module in network.modules():
        if isinstance(module, RecurrentLayer):
            module.initialize_weights_and_bias(generator)
            continue
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -_EMBEDDING_BOUND, _EMBEDDING_BOUND, generator=generator)
            continue
        if isinstance(module, nn.Conv2d | nn.Linear) and rectified:
            mode: Literal["fan_in", "fan_out"] = "fan_out" if isinstance(module, nn.Conv2d) else "fan_in"
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Conv2d) or (glorot and isinstance(module, nn.Linear)):
            nn.init.xavier_uniform_(module.weight, generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight, generator=generator)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
