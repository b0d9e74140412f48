"""Progress of a long evaluation: a display in a notebook, lines on standard error elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from bln_search.api.notebook_displays import PartProgress, find_notebook_display

_SECONDS_BETWEEN_LINES = 10.0
"""Time between two lines, and by default before the first one: short evaluations print nothing."""

_SECONDS_BETWEEN_UPDATES = 0.5
"""The same for a display in a notebook."""


class ProgressLines:
    """Shows how far the present part of an evaluation is, unless disabled: a context that removes its display.

    Args:
        enabled: Show progress.
        clock: Returns seconds.
        delay: Seconds before the first line; None for as many as between two lines.
    """

    def __init__(
        self, *, enabled: bool, clock: Callable[[], float] = time.monotonic, delay: float | None = None
    ) -> None:
        self._clock = clock
        self._display = find_notebook_display() if enabled else None
        self._enabled, self._start = enabled, clock()
        self._interval = _SECONDS_BETWEEN_LINES if self._display is None else _SECONDS_BETWEEN_UPDATES
        wait = self._interval if delay is None else min(delay, self._interval)
        self._last = self._start + wait - self._interval
        self._part, self._unit, self._done = "", "", 0
        self._total: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the display of a notebook, after an error or an interrupt too."""
        if self._display is not None:
            with suppress(Exception):  # progress ends no evaluation
                self._display.close()

    def start_part(self, part: str, unit: str, total: int | None) -> None:
        """Begin a part, of which a number of units (in the plural) is counted; None where the total is unknown."""
        self._part, self._unit, self._total, self._done = part, unit, total, 0

    def advance_to(self, done: int) -> None:
        """Set the number of what is done; as `advance`."""
        self.advance(done - self._done)

    def advance(self, count: int = 1) -> None:
        """Count what is done, and show it if that was last done long enough ago."""
        self._done += count
        now = self._clock()
        if self._enabled and now - self._last >= self._interval:
            self._last = now
            self._show(now - self._start)

    def _show(self, seconds: float) -> None:
        total = "" if self._total is None else f" of {self._total:,}"
        text = f"{self._done:,}{total} {self._unit}, {seconds:.0f} s"
        if self._display is not None:
            with suppress(Exception):  # progress ends no evaluation
                self._display.update(PartProgress(self._part, self._done, self._total, text))
            return
        with suppress(OSError, ValueError, AttributeError):  # standard error may be closed or missing
            print(f"bln-search: {self._part}: {text}", file=sys.stderr, flush=True)
