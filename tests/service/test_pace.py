"""Very many small questions are answered, but not as fast as they come."""

from __future__ import annotations

import asyncio

from service import pace
from service.pace import Pace


def test_what_is_too_much_for_a_second_waits_a_moment(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    async def asked(times):
        for _ in range(times):
            await kept.keep()
        return len(slept)

    now = [7.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pace.asyncio, "sleep", sleep)
    kept = Pace(3)
    assert asyncio.run(asked(3)) == 0
    assert asyncio.run(asked(2)) == 2
    now[0] = 8.0
    assert asyncio.run(asked(3)) == 2
