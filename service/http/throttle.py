"""Delay requests that need no token once too many arrive within a second."""

from __future__ import annotations

import asyncio
import time

THROTTLE_DELAY = 0.2
"""Seconds by which an excess request is delayed, so that a client in a loop leaves time for other requests."""


class RequestsPerSecondThrottle:
    """Lets a number of requests pass in each second of the clock and delays the others."""

    def __init__(self, max_per_second: int) -> None:
        self._max_per_second = max_per_second
        self._second = self._count = 0

    async def wait_if_over_limit(self) -> None:
        """Return at once, or after `THROTTLE_DELAY` if this second has too many requests."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count > self._max_per_second:
            await asyncio.sleep(THROTTLE_DELAY)
