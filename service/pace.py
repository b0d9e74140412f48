"""Requests that need no token and cost little: answered at once, unless very many come."""

from __future__ import annotations

import asyncio
import time

SLOWED = 0.2
"""Seconds for which a client waits that asks one question too many: who asks again at once leaves time for others."""


class Pace:
    """Lets so many through each second, and the others a moment later."""

    def __init__(self, a_second: int) -> None:
        self._most = a_second
        self._second = self._count = 0

    async def keep(self) -> None:
        """Return at once, or after `SLOWED` where too many have come in this second."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count > self._most:
            await asyncio.sleep(SLOWED)
