"""Requests over the limit of a second are delayed."""

from __future__ import annotations

import asyncio

from service.http import throttle
from service.http.throttle import RequestsPerSecondThrottle


def test_requests_over_the_limit_per_second_are_delayed(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    async def delayed(times):
        for _ in range(times):
            await limiter.wait_if_over_limit()
        return len(slept)

    clock = [7.0]
    monkeypatch.setattr(throttle.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(throttle.asyncio, "sleep", sleep)
    limiter = RequestsPerSecondThrottle(3)
    assert asyncio.run(delayed(3)) == 0
    assert asyncio.run(delayed(2)) == 2
    clock[0] = 8.0
    assert asyncio.run(delayed(3)) == 2
