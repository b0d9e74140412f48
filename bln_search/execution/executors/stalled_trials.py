"""Finds processes whose trials make no progress, as where user code hangs."""

from __future__ import annotations

import time
from collections.abc import Hashable

from bln_search.core.states import FailureClass
from bln_search.execution.messages import TaskFailed


class ProgressClock:
    """Knows since when each process has reported nothing. A report is an epoch, a phase or the end of a trial.

    Args:
        timeout: Seconds after which a process is stalled; None for never.
    """

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self._reported_at: dict[Hashable, float] = {}

    def note_progress(self, process: Hashable) -> None:
        """A process has received a trial or reported something."""
        self._reported_at[process] = time.monotonic()

    def forget(self, process: Hashable) -> None:
        """A process has ended or has no trial."""
        self._reported_at.pop(process, None)

    def is_stalled(self, process: Hashable) -> bool:
        """Has a process with trials reported nothing for longer than the timeout?"""
        reported_at = self._reported_at.get(process)
        return self.timeout is not None and reported_at is not None and time.monotonic() - reported_at > self.timeout

    def make_failure(self, *, process_lost: bool = False) -> TaskFailed:
        """The failure of a trial whose process is stalled and was ended. process_lost: it never started."""
        reason = (
            f"no progress for {self.timeout:g} seconds, so the process of the trial was ended; if an epoch, or loading "
            "the data, takes longer, set BLN_SEARCH_TRIAL_TIMEOUT to more seconds"
        )
        return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_unusable=True, process_lost=process_lost)
