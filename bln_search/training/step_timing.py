"""Durations of the steps and the validation of a training run, measured for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.norms.network.layers import MomentsByEstimate
from bln_search.training.loop import TrainingRun
from bln_search.training.optimization import StepSchedules

WARM_UP = 2
"""Largest number of first durations that are not counted: memory is allocated and kernels are chosen in them."""

_MAX_VALIDATIONS = 5
_LEARNING_RATE = 1e-9
"""So small that the weights hardly change, and no loss diverges on random inputs."""

_EPOCHS = 1_000_000
"""So many that schedules do not leave their initial value while steps are measured."""


@dataclass(frozen=True)
class DeviceSynchronizedClock:
    """Seconds of a monotonic clock, after everything that was started on the device has ended.

    Attributes:
        device: torch device name.
        clock: returns seconds.
    """

    device: str = "cpu"
    clock: Callable[[], float] = time.perf_counter

    def read_seconds(self) -> float:
        """Return the seconds of the clock."""
        if self.device.startswith("cuda"):
            torch.cuda.synchronize(self.device)
        return self.clock()

    def begin_timed_repetitions(self, seconds: float) -> TimedRepetitions:
        """Return durations that are measured from now on, for this number of seconds."""
        return TimedRepetitions(self, self.read_seconds() + seconds)


@dataclass
class TimedRepetitions:
    """Durations of repetitions. The repetition in which the time ends is the last one, so there is at least one.

    Attributes:
        stopwatch: measures them.
        end: seconds of the stopwatch.
        seconds: the durations so far, without the first ones that are not counted.
    """

    stopwatch: DeviceSynchronizedClock
    end: float
    _readings: list[float] = field(default_factory=list)

    def begin_repetition_unless_time_is_over(self) -> bool:
        """Begin a repetition, and end the one before. Returns False where the time has ended."""
        self._readings.append(self.stopwatch.read_seconds())
        return len(self._readings) < 2 or self._readings[-1] < self.end

    @property
    def counted_seconds(self) -> list[float]:
        """The durations without the first ones, of which the last is counted if there is no other."""
        durations = [end - start for start, end in zip(self._readings, self._readings[1:], strict=False)]
        return durations[min(WARM_UP, len(durations) - 1) :] if durations else []


class TimedTraining(TrainingRun):
    """Training steps of a trial as they are in its training, with a tiny learning rate, for a limited time.

    The mini-batches are repeated where there are too few of them.

    Args:
        arguments: of `TrainingRun`.
        stopwatch: measures.
        step_seconds: time of all steps.
        validation_seconds: time of all validations.
        options: of `TrainingRun`.
    """

    def __init__(
        self,
        *arguments: Any,
        stopwatch: DeviceSynchronizedClock,
        step_seconds: float,
        validation_seconds: float,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.spec = self.spec.model_copy(update={"learning_rate": _LEARNING_RATE, "epochs": _EPOCHS})
        self.schedules = StepSchedules(self.spec, self.arm, self.steps)
        self._stopwatch, self._budgets = stopwatch, (step_seconds, validation_seconds)
        self._steps, self._validations = stopwatch.begin_timed_repetitions(0), stopwatch.begin_timed_repetitions(0)

    def measure_seconds_of_each_step_and_validation(self) -> tuple[list[float], list[float]]:
        """Return the seconds of training steps, and of validations of all examples of the validation split.

        Raises:
            ModelError: a loss is not finite.
        """
        with closing(self.train_epochs()) as epochs:
            next(epochs, None)
        if self.result.diverged is not None:
            raise ModelError(f"no duration can be measured: {self.result.diverged}")
        return self._steps.counted_seconds, self._validations.counted_seconds

    def _iter_batch_indices(self) -> Iterator[Tensor]:
        self._steps = self._stopwatch.begin_timed_repetitions(self._budgets[0])
        while True:
            for index in super()._iter_batch_indices():
                if not self._steps.begin_repetition_unless_time_is_over():
                    return
                yield index

    def _measure_loss_and_accuracy(self, moments: MomentsByEstimate, split: Split) -> tuple[float, float | None]:
        self._validations = self._stopwatch.begin_timed_repetitions(self._budgets[1])
        result: tuple[float, float | None] = 0.0, 0.0
        for _ in range(_MAX_VALIDATIONS):
            if not self._validations.begin_repetition_unless_time_is_over():
                return result
            result = super()._measure_loss_and_accuracy(moments, split)
        self._validations.begin_repetition_unless_time_is_over()
        return result
