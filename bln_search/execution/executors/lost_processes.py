"""Count worker processes that were lost through no fault of a trial, and delay the next start."""

from __future__ import annotations

import time

from bln_search.core.errors import TrialProcessLostError

PAUSES = (0.5, 2.0)
"""Seconds without a new process after the first and the second consecutive loss; the third loss ends the run."""


class LostProcessCounter:
    """Counts consecutive losses. Several losses within one pause have one cause and count once."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = ""
        self.next_start = 0.0

    def record_lost_process(self, reason: str) -> None:
        """Record a process that did not start, or ended before its first trial."""
        self.reason = reason
        if self.is_start_delayed:
            return
        self.count += 1
        if not self.has_too_many_lost_processes:
            self.next_start = time.monotonic() + PAUSES[self.count - 1]

    def reset_after_completed_trial(self) -> None:
        """A process completed a trial: the next loss is the first one again."""
        self.count = 0

    @property
    def is_start_delayed(self) -> bool:
        """Is it too early to start another process?"""
        return time.monotonic() < self.next_start

    @property
    def has_too_many_lost_processes(self) -> bool:
        """Are there too many consecutive losses?"""
        return self.count > len(PAUSES)

    def check_number_of_lost_processes(self) -> None:
        """Raise TrialProcessLostError if there are too many consecutive losses."""
        if self.has_too_many_lost_processes:
            raise TrialProcessLostError(
                f"{self.count} times in a row a process for trials was lost as it started, the last time: "
                f"{self.reason}; the machine may be short of memory, processes or open files"
            )
