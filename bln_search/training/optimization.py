"""Optimizers by name, and values that a training run schedules from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from bln_search.specs.sections.arm import ArmSpec
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


@dataclass(frozen=True)
class StepSchedules:
    """The schedules of a training run, by step, counted from 0.

    Attributes:
        spec: Learning rate, its schedule and the number of epochs.
        arm: Schedules of attributes of the normalization layers.
        steps_per_epoch: Number of mini-batches of an epoch.
    """

    spec: TrainingSpec
    arm: ArmSpec
    steps_per_epoch: int

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.spec.learning_rate * self.spec.schedule.factor_at_progress(self._progress(step), self.spec.epochs)

    def layer_attributes(self, step: int) -> dict[str, float]:
        """Return the scheduled attributes of the normalization layers at a step, by name."""
        progress = self._progress(step)
        schedules = self.arm.layer_attribute_schedules
        return {name: schedule.value_at_progress(progress) for name, schedule in schedules.items()}

    def _progress(self, step: int) -> float:
        return step / (self.steps_per_epoch * self.spec.epochs)
