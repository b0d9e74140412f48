"""Worker processes that were lost without a trial being at fault, and when the next may be started."""

from __future__ import annotations

import time

from bln_search.core.errors import ProcessLossError

PAUSES = (0.5, 2.0)
"""Seconds without a new process after the first loss in a row, and the second; the next one ends the run."""


class ProcessLosses:
    """Counts losses in a row. Several within one pause have one cause and count once."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = ""
        self.next_start = 0.0

    def record(self, reason: str) -> None:
        """A process could not be started, or was lost before it had begun a trial."""
        self.reason = reason
        if self.pausing:
            return
        self.count += 1
        if not self.exhausted:
            self.next_start = time.monotonic() + PAUSES[self.count - 1]

    def reset(self) -> None:
        """A process carried a trial out."""
        self.count = 0

    @property
    def pausing(self) -> bool:
        """Is it too early to start another process?"""
        return time.monotonic() < self.next_start

    @property
    def exhausted(self) -> bool:
        """Were there too many losses in a row?"""
        return self.count > len(PAUSES)

    def check(self) -> None:
        """Raise ProcessLossError where there were too many losses in a row."""
        if self.exhausted:
            raise ProcessLossError(
                f"{self.count} times in a row a process for trials was lost as it started, the last time: "
                f"{self.reason}; the machine may be short of memory, processes or open files"
            )
