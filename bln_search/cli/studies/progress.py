"""Progress of a running study: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bln_search.cli.output import errors

if TYPE_CHECKING:
    from bln_search.execution.messages import Message
    from bln_search.specs.trial import TrialSpec


class TerminalProgress:
    """Bars in a terminal: one for the study and one for each running trial, with the remaining time."""

    def __init__(self) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=errors,
            transient=True,
        )
        self.study_bar: TaskID | None = None
        self.bars: dict[str, tuple[str, TaskID]] = {}
        self.ended_trials: set[str] = set()

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
        self.study_bar = self.progress.add_task("[bold]trials", total=trials, note="")

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Move the trial's bar."""
        from bln_search.execution.messages import TERMINAL_MESSAGES, Progressed, TaskFailed

        if isinstance(message, Progressed):
            self._move(trial.label, message.phase, message.done, message.total)
        elif isinstance(message, TERMINAL_MESSAGES):
            bar = self.bars.pop(trial.label, None)
            if bar is not None:
                self.progress.remove_task(bar[1])
            self.ended_trials.add(trial.key)
            if self.study_bar is not None:
                self.progress.update(self.study_bar, completed=len(self.ended_trials))
            if isinstance(message, TaskFailed):
                self.progress.console.print(f"{trial.label}: {message.reason}", markup=False)

    def _move(self, label: str, phase: str, done: int, total: int) -> None:
        bar = self.bars.get(label)
        if bar is None or bar[0] != phase:
            if bar is not None:
                self.progress.remove_task(bar[1])
            self.bars[label] = phase, self.progress.add_task(f"{label} {phase}", total=total, note="")
        self.progress.update(self.bars[label][1], completed=done)


class PlainProgress:
    """A line whenever a trial starts a phase or ends, with the remaining time."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.total = 0
        self.ended_trials: set[str] = set()
        self.phases: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Return the progress; nothing is prepared."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def on_run_start(self, trials: int) -> None:
        """Start with the number of trials to run."""
        self.total = trials
        self._print(f"{trials} trials to run")

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Print a new phase or the end of a trial."""
        from bln_search.execution.messages import TERMINAL_MESSAGES, Progressed

        if isinstance(message, Progressed) and self.phases.get(trial.label) != message.phase:
            self.phases[trial.label] = message.phase
            self._print(f"{trial.label}: {message.phase}")
        elif isinstance(message, TERMINAL_MESSAGES):
            self.ended_trials.add(trial.key)
            self.phases.pop(trial.label, None)
            outcome = _outcome_text(message)
            self._print(f"{trial.label}: {outcome} ({len(self.ended_trials)}/{self.total}{self._eta()})")

    def _eta(self) -> str:
        seconds = (
            (time.monotonic() - self.start) / max(len(self.ended_trials), 1) * (self.total - len(self.ended_trials))
        )
        return f", about {seconds:.0f} s left" if seconds else ""

    def _print(self, line: str) -> None:
        errors.print(f"[{time.monotonic() - self.start:7.1f} s] {line}", markup=False, highlight=False, soft_wrap=True)


def _outcome_text(message: Message) -> str:
    from bln_search.execution.messages import TaskFailed, TrainingDiverged, TrainingPruned

    if isinstance(message, TrainingPruned):
        return f"pruned after epoch {message.epoch}"
    return message.reason if isinstance(message, TaskFailed | TrainingDiverged) else "done"
