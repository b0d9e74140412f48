"""A value that costs something, made anew at most every few seconds however many ask."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Cached(Generic[T]):
    """Calls `make` for whoever asks first after `seconds`; who asks meanwhile gets what was made before."""

    def __init__(self, make: Callable[[], T], seconds: float) -> None:
        self._make, self._seconds = make, seconds
        self._lock = Lock()
        self._made: tuple[float, T] | None = None

    def __call__(self) -> T:
        """The value. What `make` raises is raised, and nothing is kept."""
        made = self._made
        if made is not None and (self._is_fresh(made) or not self._lock.acquire(blocking=False)):
            return made[1]
        if made is None:
            self._lock.acquire()  # the very first: there is nothing else to give
        try:
            if self._made is None or not self._is_fresh(self._made):
                value = self._make()
                self._made = (time.monotonic(), value)  # counted from when it was there, however long it took
            return self._made[1]
        finally:
            self._lock.release()

    def _is_fresh(self, made: tuple[float, T]) -> bool:
        return time.monotonic() - made[0] < self._seconds
