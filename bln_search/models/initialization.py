"""Initial weights as in the BLN experiments: Glorot uniform convolutions, orthogonal dense layers, zero biases."""

from __future__ import annotations

import torch
from torch import nn


def initialize(network: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight of `network` from `generator`; normalization layers keep γ = 1, β = 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.xavier_uniform_(module.weight, generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight, generator=generator)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
