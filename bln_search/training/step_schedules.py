"""Values that a training run schedules from step to step."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.training import TrainingSpec


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
        """Return the finished fraction of training before a step."""
        return step / (self.steps_per_epoch * self.spec.epochs)
