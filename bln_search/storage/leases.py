"""Durations of leases, and after how long a worker without heartbeats counts as gone."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

LEASE = timedelta(seconds=30)
"""Time after the last heartbeat from which another worker may claim an attempt or a study."""

WORKER_TIMEOUT = LEASE
"""Time after the last heartbeat from which a worker counts as gone."""

_MAX_DRIFT = timedelta(seconds=5)
"""Difference between two clocks that is no sign that one was set."""

_UNLIMITED = timedelta(days=36_500)


class LeaseClock:
    """Decides which leases hold, by a clock that people and time servers may set.

    After this process has seen the clock jump, or the database return, every lease holds until its holder had the time
    to renew it. A lease that ends later than a new one would is from before the clock was set back: it does not hold.
    """

    def __init__(self) -> None:
        self._offset: timedelta | None = None
        self._is_disconnected = False
        self._waits_until = float("-inf")

    def note_disconnection(self) -> None:
        """Record that the database cannot be reached: holders of leases may not reach it either."""
        self._is_disconnected = True

    def note(self, now: datetime) -> None:
        """Compare a reading of the clock with the time that has passed since the one before."""
        passed = time.monotonic()
        offset = timedelta(seconds=now.timestamp() - passed)
        has_jumped = self._offset is not None and abs(offset - self._offset) > _MAX_DRIFT
        if has_jumped or self._is_disconnected:
            self._waits_until = passed + LEASE.total_seconds()
        self._offset, self._is_disconnected = offset, False

    def held_range(self, now: datetime) -> tuple[datetime, datetime]:
        """A lease holds if it ends after the first of these times, and not after the second."""
        if time.monotonic() < self._waits_until:
            return now - _UNLIMITED, now + _UNLIMITED
        return now, now + LEASE + _MAX_DRIFT

    def is_held(self, until: datetime | None, now: datetime) -> bool:
        """Whether a lease that ends at `until` holds."""
        after, latest = self.held_range(now)
        return until is not None and after < until <= latest
