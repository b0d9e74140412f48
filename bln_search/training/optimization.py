"""Optimizers by name."""

from __future__ import annotations

import torch
from torch import nn

from bln_search.specs.sections.training import TrainingSpec
from bln_search.training.sparse_adam import EPSILON, SparseRowAdam, has_embedding_for_sparse_gradients


def make_optimizer(network: nn.Module, spec: TrainingSpec) -> torch.optim.Optimizer:
    """Return Adam (with torch's defaults) or SGD for all parameters, as fused kernels."""
    epsilon = spec.epsilon or EPSILON
    if spec.optimizer == "adam" and not spec.weight_decay and has_embedding_for_sparse_gradients(network):
        return SparseRowAdam(network, spec.learning_rate, epsilon)
    if spec.optimizer == "adam":
        return torch.optim.Adam(
            network.parameters(), lr=spec.learning_rate, eps=epsilon, weight_decay=spec.weight_decay, fused=True
        )
    return torch.optim.SGD(
        network.parameters(),
        lr=spec.learning_rate,
        momentum=spec.momentum or 0.0,
        weight_decay=spec.weight_decay,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate
