"""Optimizers of test-time adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn
from torch.optim import SGD, Adam, Optimizer

OptimizerName = Literal["sgd", "adam"]


def make_optimizer(name: OptimizerName, parameters: Sequence[nn.Parameter], learning_rate: float) -> Optimizer:
    """Return SGD with momentum 0.9, or Adam with β = (0.9, 0.999) and ε = 1e-8, without weight decay."""
    if name == "sgd":
        return SGD(parameters, learning_rate, momentum=0.9)
    return Adam(parameters, learning_rate, betas=(0.9, 0.999))
