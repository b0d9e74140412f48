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
    """A bar for the study and one for each running trial, with the remaining time."""

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
        self.ended: set[str] = set()

    def __enter__(self) -> Self:
        """Show the bars."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bars."""
        self.progress.stop()

    def on_start(self, trials: int) -> None:
        """So many trials are left to do."""
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
            self.ended.add(trial.key)
            if self.study_bar is not None:
                self.progress.update(self.study_bar, completed=len(self.ended))
            if isinstance(message, TaskFailed):
                self.progress.console.print(f"{trial.label}: {message.reason}", markup=False)

    def _move(self, label: str, phase: str, done: int, total: int) -> None:
        present = self.bars.get(label)
        if present is None or present[0] != phase:
            if present is not None:
                self.progress.remove_task(present[1])
            self.bars[label] = phase, self.progress.add_task(f"{label} {phase}", total=total, note="")
        self.progress.update(self.bars[label][1], completed=done)


class PlainProgress:
    """A line whenever a trial starts a phase or ends, with the remaining time."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.total = 0
        self.ended: set[str] = set()
        self.phases: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to remove."""

    def on_start(self, trials: int) -> None:
        """So many trials are left to do."""
        self.total = trials
        self._say(f"{trials} trials to do")

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Print a new phase or the end of a trial."""
        from bln_search.execution.messages import TERMINAL_MESSAGES, Progressed

        if isinstance(message, Progressed) and self.phases.get(trial.label) != message.phase:
            self.phases[trial.label] = message.phase
            self._say(f"{trial.label}: {message.phase}")
        elif isinstance(message, TERMINAL_MESSAGES):
            self.ended.add(trial.key)
            self.phases.pop(trial.label, None)
            outcome = _outcome(message)
            self._say(f"{trial.label}: {outcome} ({len(self.ended)}/{self.total}{self._eta()})")

    def _eta(self) -> str:
        left = (time.monotonic() - self.start) / max(len(self.ended), 1) * (self.total - len(self.ended))
        return f", about {left:.0f} s left" if left else ""

    def _say(self, line: str) -> None:
        errors.print(f"[{time.monotonic() - self.start:7.1f} s] {line}", markup=False, highlight=False, soft_wrap=True)


def _outcome(message: Message) -> str:
    from bln_search.execution.messages import TaskFailed, TrainingDiverged, TrainingPruned

    if isinstance(message, TrainingPruned):
        return f"pruned after epoch {message.epoch}"
    return message.reason if isinstance(message, TaskFailed | TrainingDiverged) else "done"
