"""A cached value that expires after a fixed time; one thread at a time computes it anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class ExpiringCachedValue(Generic[T]):
    """Caches the return value of a function without arguments.

    While one thread computes an expired value, other threads get the stale value at once. `cachetools.TTLCache` does
    not have this property.

    Args:
        compute: The cached function. Its exceptions propagate and nothing is cached.
        ttl: Seconds until the value expires.
        max_stale: Seconds. A value at least this old is not returned as a stale value; callers get None instead,
            because `compute` probably hangs.
    """

    def __init__(self, compute: Callable[[], T | None], ttl: float, max_stale: float = 120.0) -> None:
        self._compute, self._ttl, self._max_stale = compute, ttl, max_stale
        self._lock = Lock()
        self._entry: tuple[float, T | None] | None = None

    def __call__(self) -> T | None:
        """Return the value, and compute it if it has expired. Raises what `compute` raises."""
        entry = self._entry
        if entry is not None and self._is_entry_fresh(entry):
            return entry[1]
        if entry is not None and not self._lock.acquire(blocking=False):
            return entry[1] if self._entry_age(entry) < self._max_stale else None
        if entry is None:
            self._lock.acquire()  # the first call: there is no stale value to return
        try:
            if self._entry is None or not self._is_entry_fresh(self._entry):
                value = self._compute()
                self._entry = (time.monotonic(), value)  # the age counts from the end of the computation
            return self._entry[1]
        finally:
            self._lock.release()

    def find_fresh_value(self) -> T | None:
        """Return the value if it has not expired, else None. Never computes and never waits."""
        entry = self._entry
        return entry[1] if entry is not None and self._is_entry_fresh(entry) else None

    def _is_entry_fresh(self, entry: tuple[float, T | None]) -> bool:
        return self._entry_age(entry) < self._ttl

    @staticmethod
    def _entry_age(entry: tuple[float, T | None]) -> float:
        return time.monotonic() - entry[0]
