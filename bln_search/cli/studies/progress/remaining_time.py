"""Remaining time of a running study, from the durations of its epochs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_SMOOTHING = 0.3
"""Weight of a new estimate of the end; the rest is that of the estimates before it."""

_MINUTE = 60
_HOUR = 3600
_DAY = 24


@dataclass
class _RunningTrialTimes:
    """A trial since its first message.

    Attributes:
        started_at: Start of its first epoch, seconds of the clock.
        epochs: Number of epochs of the trial.
        done: Number of finished epochs.
        training_seconds: Total duration of the finished epochs.
    """

    started_at: float
    epochs: int
    done: int = 0
    training_seconds: float = 0.0


@dataclass
class RemainingTimeEstimator:
    """Estimates the remaining time, and counts the elapsed time from the start of the first epoch.

    The pace is the mean duration of an epoch in its process, so the time in which processes start is not part of it. A
    trial needs its epochs and the time after training that ended trials needed. Parallel trials share the work. The
    predicted end is smoothed.

    Attributes:
        trials: Number of trials to run.
        workers: Largest number of parallel trials; the number observed, where it is larger.
        clock: Returns seconds.
    """

    trials: int = 0
    workers: int = 1
    clock: Callable[[], float] = time.monotonic
    ended: set[str] = field(default_factory=set)
    running: dict[str, _RunningTrialTimes] = field(default_factory=dict)
    _started_at: float | None = None
    _predicted_end: float | None = None
    _epochs_done: int = 0
    _epoch_seconds: float = 0.0
    _overheads: list[float] = field(default_factory=list)
    _epochs_of_trials: list[int] = field(default_factory=list)

    def count_finished_epoch(self, trial: str, epochs: int, seconds: float) -> None:
        """Count a finished epoch.

        Args:
            trial: Identity of the trial.
            epochs: Number of epochs of the trial.
            seconds: Duration of the finished epoch.
        """
        record = self._get_or_add_running_trial(trial, epochs, self.clock() - seconds)
        record.done += 1
        record.training_seconds += seconds
        self._epochs_done += 1
        self._epoch_seconds += seconds
        self._update_predicted_end()

    def count_epochs_of_earlier_attempt(self, trial: str, epochs: int, done: int) -> None:
        """Count the epochs that an earlier attempt finished, without their durations.

        Args:
            trial: Identity of the trial.
            epochs: Number of epochs of the trial.
            done: Number of epochs that are finished.
        """
        self._get_or_add_running_trial(trial, epochs, self.clock()).done = done

    def mark_training_ended(self, trial: str, epochs: int) -> None:
        """Count a message of a trial that is not an epoch: its evaluation."""
        record = self._get_or_add_running_trial(trial, epochs, self.clock())
        record.done = record.epochs  # training has ended, or was not needed

    def count_ended_trial(self, trial: str, *, has_result: bool = True) -> None:
        """Count the end of a trial. An attempt without a result does not change the pace; the trial may run again."""
        record = self.running.pop(trial, None)
        self.ended.add(trial)
        if record is not None and has_result:
            self._overheads.append(max(0.0, self.clock() - record.started_at - record.training_seconds))
        self._update_predicted_end()

    @property
    def seconds_since_first_epoch(self) -> float | None:
        """Seconds since the start of the first epoch; None before its end."""
        return None if self._started_at is None else self.clock() - self._started_at

    @property
    def remaining_seconds(self) -> float | None:
        """Estimated remaining seconds; None before the first epoch has ended."""
        return None if self._predicted_end is None else max(0.0, self._predicted_end - self.clock())

    def _get_or_add_running_trial(self, trial: str, epochs: int, started_at: float) -> _RunningTrialTimes:
        if self._started_at is None:
            self._started_at = started_at
        if trial not in self.running:
            self.ended.discard(trial)
            self.running[trial] = _RunningTrialTimes(started_at, epochs)
            self._epochs_of_trials.append(epochs)
        return self.running[trial]

    def _update_predicted_end(self) -> None:
        waiting = max(0, self.trials - len(self.ended) - len(self.running))
        unfinished = waiting + len(self.running)
        if not unfinished or not self._epochs_done:
            self._predicted_end = self.clock() if not unfinished else None
            return
        epochs = waiting * statistics.fmean(self._epochs_of_trials)
        epochs += sum(max(0, record.epochs - record.done) for record in self.running.values())
        overhead = statistics.fmean(self._overheads) if self._overheads else 0.0
        work = epochs * self._epoch_seconds / self._epochs_done + unfinished * overhead
        end = self.clock() + work / min(max(self.workers, len(self.running)), unfinished)
        previous = end if self._predicted_end is None else self._predicted_end
        self._predicted_end = previous + _SMOOTHING * (end - previous)


def format_seconds(seconds: float) -> str:
    """A duration for people: `45 s`, `12 min`, `3 h 20 min`, `5 d 4 h`."""
    whole = round(seconds)
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    minutes = round(seconds / _MINUTE)
    if minutes < 2 * _MINUTE:
        return f"{minutes} min"
    hours = round(seconds / _HOUR)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 2 * _DAY else f"{hours // _DAY} d {hours % _DAY} h"
