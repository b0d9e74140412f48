"""Training of a network in place, from its first epoch to its last."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.records import EpochRecord
from bln_search.data.prepared import PreparedData
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.training import TrainingSpec
from bln_search.tasks.task import CLASSIFICATION, Task
from bln_search.training.loop import TrainingRun
from bln_search.training.result import TrainingResult


def train_in_place(
    network: nn.Module,
    data: PreparedData,
    spec: TrainingSpec,
    arm: ArmSpec,
    *,
    seed: int,
    estimates: tuple[PopulationEstimate, ...] = (),
    correction: Correction = Correction.BESSEL,
    on_epoch: Callable[[EpochRecord], None] | None = None,
    task: Task = CLASSIFICATION,
) -> TrainingResult:
    """Train `network` in place on the device of `data`; in the end it has the weights of the kept epoch.

    A loss that is not finite stops training; `diverged` then holds the reason.

    Args:
        network: with normalization layers.
        data: prepared data set.
        spec: hyper-parameters.
        arm: method and schedules of the normalization layers.
        seed: of the order of the examples and of augmentation.
        estimates: population estimates; those of training are collected.
        correction: of the population variance for the validation of epochs.
        on_epoch: called after each epoch.
        task: compares the outputs with the targets.
    """
    run = TrainingRun(network, data, spec, arm, seed=seed, estimates=estimates, correction=correction, task=task)
    for record in run.train_epochs():
        if on_epoch is not None:
            on_epoch(record)
    return run.result
