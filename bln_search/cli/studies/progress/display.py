"""Progress of a running study: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from bln_search.cli.output import errors, print_note
from bln_search.cli.studies.progress.remaining_time import RemainingTimeEstimator, format_seconds
from bln_search.specs.records import StudyRecord
from bln_search.storage.events import EventRecord

if TYPE_CHECKING:
    from bln_search.execution.messages import Message
    from bln_search.specs.trial import TrialSpec
    from bln_search.worker.study_run import RunWatcher

_LINE_INTERVAL = 10.0
"""Smallest number of seconds between two lines of progress."""

CountWorkers = Callable[[int], int]
"""Number of worker processes for a number of trials."""


def choose_progress_watcher(count_workers: CountWorkers, *, quiet: bool = False) -> AbstractContextManager[RunWatcher]:
    """Return bars in a terminal, lines elsewhere, nothing with `quiet`."""
    if quiet:
        return SilentProgress()
    return TerminalBarsProgress(count_workers) if errors.is_terminal else LineProgress(count_workers)


class SilentProgress:
    """Prints nothing."""

    def __enter__(self) -> Self:
        """Return the progress; nothing is prepared."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def on_run_start(self, trials: int) -> None:
        """Do nothing."""

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Do nothing."""


def format_starting_text(parallel_trials: int) -> str:
    """What happens before the first epoch. parallel_trials: those that run at the same time."""
    noun = "trials at the same time" if parallel_trials > 1 else "trial"
    return f"starting {parallel_trials} {noun} (loading torch and the data)"


def format_remaining_time(remaining: RemainingTimeEstimator) -> str:
    """The remaining time; empty before the first epoch has ended."""
    seconds = remaining.remaining_seconds
    return "" if seconds is None else f"about {format_seconds(seconds)} left"


class _ElapsedAndRemainingTimeColumn(ProgressColumn):
    """Elapsed and remaining time in the bar of the study."""

    def __init__(self, remaining: RemainingTimeEstimator) -> None:
        super().__init__()
        self.remaining = remaining

    def render(self, task: Task) -> Text:
        """Return the times; nothing for the bar of a trial."""
        elapsed = self.remaining.seconds_since_first_epoch
        if not task.fields.get("is_study") or elapsed is None:
            return Text("")
        return Text(f"{format_seconds(elapsed)}, {format_remaining_time(self.remaining)}")


class TerminalBarsProgress:
    """Bars in a terminal: one for the study, with its remaining time, and one for each running trial.

    Args:
        count_workers: Returns the number of worker processes.
        clock: Returns seconds.
    """

    def __init__(self, count_workers: CountWorkers, clock: Callable[[], float] = time.monotonic) -> None:
        self.count_workers = count_workers
        self.remaining = RemainingTimeEstimator(clock=clock)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _ElapsedAndRemainingTimeColumn(self.remaining),
            TextColumn("{task.fields[note]}"),
            console=errors,
            transient=True,
        )
        self.study_bar: TaskID | None = None
        self.bars: dict[str, tuple[str, TaskID]] = {}

    def __enter__(self) -> Self:
        """Show the bars."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bars."""
        self.progress.stop()

    def on_run_start(self, trials: int) -> None:
        """Start with the number of trials to run."""
        self.remaining.trials = trials
        self.remaining.workers = min(trials, self.count_workers(trials)) if trials else 1
        note = format_starting_text(self.remaining.workers) if trials else ""
        self.study_bar = self.progress.add_task("[bold]trials", total=trials, note=note, is_study=True)

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Move the trial's bar."""
        from bln_search.execution.messages import TERMINAL_MESSAGES, PhaseProgress, TaskFailed

        update_estimator_from_message(self.remaining, trial, message)
        if isinstance(message, PhaseProgress):
            self._move_trial_bar(trial.label, message.phase, message.done, message.total)
        elif isinstance(message, TERMINAL_MESSAGES):
            bar = self.bars.pop(trial.label, None)
            if bar is not None:
                self.progress.remove_task(bar[1])
            if isinstance(message, TaskFailed):
                self.progress.console.print(f"{trial.label}: {message.reason}", markup=False)
        if self.study_bar is not None:
            self.progress.update(self.study_bar, completed=len(self.remaining.ended), note="")

    def _move_trial_bar(self, label: str, phase: str, done: int, total: int) -> None:
        bar = self.bars.get(label)
        if bar is None or bar[0] != phase:
            if bar is not None:
                self.progress.remove_task(bar[1])
            self.bars[label] = phase, self.progress.add_task(f"{label} {phase}", total=total, note="")
        self.progress.update(self.bars[label][1], completed=done)


class LineProgress(SilentProgress):
    """Lines of progress, at most one in ten seconds, and one for every trial that does not finish.

    Args:
        count_workers: Returns the number of worker processes.
        clock: Returns seconds.
    """

    def __init__(self, count_workers: CountWorkers, clock: Callable[[], float] = time.monotonic) -> None:
        self.count_workers, self.clock = count_workers, clock
        self.remaining = RemainingTimeEstimator(clock=clock)
        self.start = clock()
        self.printed_at: float | None = None
        self.phases: dict[str, str] = {}

    def on_run_start(self, trials: int) -> None:
        """Start with the number of trials to run."""
        self.remaining.trials = trials
        if not trials:
            self._print_line_with_seconds("0 trials to run")
            return
        self.remaining.workers = min(trials, self.count_workers(trials))
        self._print_line_with_seconds(
            f"{trials} trial{'' if trials == 1 else 's'} to run; {format_starting_text(self.remaining.workers)}"
        )

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Print the state of the study, or why the trial did not finish."""
        from bln_search.execution.messages import TERMINAL_MESSAGES, EvaluationDone, PhaseProgress

        update_estimator_from_message(self.remaining, trial, message)
        if isinstance(message, PhaseProgress):
            steps = f" {message.done}/{message.total}" if message.total > 1 else ""
            self.phases[trial.label] = f"{message.phase}{steps}"
        elif isinstance(message, TERMINAL_MESSAGES):
            self.phases.pop(trial.label, None)
            if not isinstance(message, EvaluationDone):
                self._print_line_with_seconds(f"{trial.label}: {_format_trial_outcome(message)}")
        else:
            return
        is_last = not self.phases and len(self.remaining.ended) >= self.remaining.trials
        if is_last or self.printed_at is None or self.clock() - self.printed_at >= _LINE_INTERVAL:
            self.printed_at = self.clock()
            self._print_line_with_seconds(self._describe_state())

    def _describe_state(self) -> str:
        parts = [f"{len(self.remaining.ended)}/{self.remaining.trials} trials done"]
        parts += [f"{label}: {phase}" for label, phase in self.phases.items()]
        parts.append(format_remaining_time(self.remaining) if self.phases else "")
        return "; ".join(part for part in parts if part)

    def _print_line_with_seconds(self, line: str) -> None:
        print_note(f"[{self.clock() - self.start:7.1f} s] {line}")


_ENDING_EVENTS = {"trial_finished": True, "trial_diverged": True, "trial_pruned": True, "attempt_failed": False}
_ENDING_EVENTS |= {"attempt_lost": False, "attempt_released": False}
"""Events that end an attempt, and whether the trial has a result."""


class ServiceEventProgress:
    """Lines of progress from the events of a service, at most one in ten seconds.

    The time of the estimate is that of the events, so earlier events, which a service sends first, count as they were.

    Args:
        study: The study.
        clock: Returns seconds.
    """

    def __init__(self, study: StudyRecord, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.printed_at = clock()
        self.epochs = study.spec.training.epochs
        self.event_time = 0.0
        self.remaining = RemainingTimeEstimator(study.planned, clock=lambda: self.event_time)
        self.attempts: set[str] = set()

    def record_event_and_make_line_if_due(self, event: EventRecord) -> str | None:
        """Count an event; returns a line when one is due."""
        self.event_time = event.at.timestamp()
        kind, trial = event.kind, str(event.trial_id)
        if kind == "attempt_started":
            self.attempts.add(trial)
            self.remaining.workers = max(self.remaining.workers, len(self.attempts))
        elif kind == "training_resumed":
            self.remaining.count_epochs_of_earlier_attempt(trial, self.epochs, event.data["epoch"])
        elif kind == "epoch":
            self.remaining.count_finished_epoch(trial, self.epochs, event.data["seconds"])
        elif kind == "trained":
            self.remaining.mark_training_ended(trial, self.epochs)
        elif kind in _ENDING_EVENTS:
            self.attempts.discard(trial)
            self.remaining.count_ended_trial(trial, has_result=_ENDING_EVENTS[kind])
        if not self.attempts or self.clock() - self.printed_at < _LINE_INTERVAL:
            return None
        self.printed_at = self.clock()
        return f"{len(self.remaining.ended)}/{self.remaining.trials} trials done; {self._remaining_text()}"

    def _remaining_text(self) -> str:
        """The remaining time, once every running trial has finished an epoch, or a trial has ended."""
        has_started = bool(self.remaining.ended) or self.attempts <= self.remaining.running.keys()
        return (format_remaining_time(self.remaining) if has_started else "") or "starting"


def update_estimator_from_message(remaining: RemainingTimeEstimator, trial: TrialSpec, message: Message) -> None:
    """Record a message of a trial in the estimator of the remaining time."""
    from bln_search.execution.messages import (
        TERMINAL_MESSAGES,
        EpochDone,
        PhaseProgress,
        TaskFailed,
        TrainingResumed,
        TrialPhase,
    )

    if isinstance(message, TrainingResumed):
        remaining.count_epochs_of_earlier_attempt(trial.key, trial.epochs, len(message.records))
    elif isinstance(message, EpochDone):
        remaining.count_finished_epoch(trial.key, trial.epochs, message.record.seconds)
    elif isinstance(message, TaskFailed):
        remaining.count_ended_trial(trial.key, has_result=False)
    elif isinstance(message, TERMINAL_MESSAGES):
        remaining.count_ended_trial(trial.key)
    elif isinstance(message, PhaseProgress) and message.phase is not TrialPhase.TRAINING:
        remaining.mark_training_ended(trial.key, trial.epochs)


def _format_trial_outcome(message: Message) -> str:
    from bln_search.execution.messages import TaskFailed, TrainingDiverged, TrainingPruned

    if isinstance(message, TrainingPruned):
        return f"pruned after epoch {message.epoch}"
    if isinstance(message, TrainingDiverged):
        return f"diverged: {message.reason}"
    return f"failed: {message.reason}" if isinstance(message, TaskFailed) else "done"
