"""Lines of progress of a long evaluation on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

_SECONDS_BETWEEN_LINES = 10.0
"""Time between two lines, and by default before the first one: short evaluations print nothing."""


class ProgressLines:
    """Prints how far the present part of an evaluation is, unless disabled.

    Args:
        enabled: Print lines.
        clock: Returns seconds.
        delay: Seconds before the first line; None for as many as between two lines.
    """

    def __init__(
        self, *, enabled: bool, clock: Callable[[], float] = time.monotonic, delay: float | None = None
    ) -> None:
        self._enabled, self._clock = enabled, clock
        self._start = clock()
        self._last = self._start if delay is None else self._start + delay - _SECONDS_BETWEEN_LINES
        self._part, self._unit, self._done = "", "", 0
        self._total: int | None = None

    def start_part(self, part: str, unit: str, total: int | None) -> None:
        """Begin a part, of which a number of units (in the plural) is counted; None where the total is unknown."""
        self._part, self._unit, self._total, self._done = part, unit, total, 0

    def advance_to(self, done: int) -> None:
        """Set the number of what is done, and print a line if the last one is old enough."""
        self.advance(done - self._done)

    def advance(self, count: int = 1) -> None:
        """Count what is done, and print a line if the last one is old enough."""
        self._done += count
        now = self._clock()
        if self._enabled and now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            total = "" if self._total is None else f" of {self._total:,}"
            line = f"bln-search: {self._part}: {self._done:,}{total} {self._unit}, {now - self._start:.0f} s"
            with suppress(OSError, ValueError, AttributeError):  # standard error may be closed or missing
                print(line, file=sys.stderr, flush=True)
