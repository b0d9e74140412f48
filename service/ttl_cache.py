"""A value that costs something, made anew at most every few seconds however many ask."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Cached(Generic[T]):
    """Calls `make` for whoever asks first after `seconds`; who asks meanwhile gets what was made before.

    None once that is older than `longest` seconds: whatever `make` asks does not answer then.
    """

    def __init__(self, make: Callable[[], T | None], seconds: float, longest: float = 120.0) -> None:
        self._make, self._seconds, self._longest = make, seconds, longest
        self._lock = Lock()
        self._made: tuple[float, T | None] | None = None

    def __call__(self) -> T | None:
        """The value. What `make` raises is raised, and nothing is kept."""
        made = self._made
        if made is not None and self._is_fresh(made):
            return made[1]
        if made is not None and not self._lock.acquire(blocking=False):
            return made[1] if self._age(made) < self._longest else None
        if made is None:
            self._lock.acquire()  # the very first: there is nothing else to give
        try:
            if self._made is None or not self._is_fresh(self._made):
                value = self._make()
                self._made = (time.monotonic(), value)  # counted from when it was there, however long it took
            return self._made[1]
        finally:
            self._lock.release()

    def fresh(self) -> T | None:
        """The value where it was made within `seconds`, without waiting for anything; else None."""
        made = self._made
        return made[1] if made is not None and self._is_fresh(made) else None

    def _is_fresh(self, made: tuple[float, T | None]) -> bool:
        return self._age(made) < self._seconds

    @staticmethod
    def _age(made: tuple[float, T | None]) -> float:
        return time.monotonic() - made[0]
