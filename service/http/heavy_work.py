"""Work that occupies the interpreter for up to a second: one piece at a time, so that other requests are answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.http.problems import ProblemException

MAX_WAITING = 4
"""Pieces of work that wait for the one in progress; more are refused."""


class HeavyWorkQueue:
    """Lets one thread work at a time, and some wait for it."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(1 + MAX_WAITING)
        self._turn = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def wait_for_turn(self) -> Iterator[None]:
        """Wait for the work of others; a thread that works already goes on.

        Raises ProblemException (503) if too many wait already.
        """
        thread = threading.get_ident()
        if self._owner == thread:
            yield
            return
        if not self._places.acquire(blocking=False):
            detail = "too many large requests wait for an answer; try again"
            raise ProblemException(503, "busy", detail, headers={"Retry-After": "1"})
        try:
            with self._turn:
                self._owner = thread
                try:
                    yield
                finally:
                    self._owner = None
        finally:
            self._places.release()


HEAVY_WORK = HeavyWorkQueue()
"""The queue of this process; threads share its interpreter."""
