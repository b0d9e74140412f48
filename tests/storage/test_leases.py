"""Leases when the clock is set, or the database was away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bln_search.storage import leases
from bln_search.storage.leases import LEASE, LeaseClock

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def passed(monkeypatch):
    """Seconds that have passed, in a list."""
    seconds = [1000.0]
    monkeypatch.setattr(leases.time, "monotonic", lambda: seconds[0])
    return seconds


@pytest.mark.parametrize(
    "step", [timedelta(hours=-2), timedelta(seconds=-40), timedelta(seconds=40), timedelta(days=2)]
)
def test_expired_leases_hold_for_thirty_seconds_after_a_step(passed, step):
    clock, until = LeaseClock(), START + LEASE
    clock.note(START)
    passed[0] += 1
    clock.note(START + timedelta(seconds=1) + step)
    for seconds in (1, 30):
        assert clock.is_held(until, START + timedelta(seconds=seconds) + step)
    passed[0] += 31
    now = START + timedelta(seconds=32) + step
    clock.note(now)
    assert not clock.is_held(until, now)
    assert clock.is_held(now + LEASE, now)


def test_expired_leases_hold_for_thirty_seconds_after_the_database_is_back(passed):
    """Their holders could not renew them."""
    clock, until = LeaseClock(), START + LEASE
    clock.note(START)
    clock.note_disconnection()
    for hours in (1, 2):  # the later lease was not renewed in time
        passed[0] = 1000.0 + 3600 * hours
        now = START + timedelta(hours=hours)
        clock.note(now)
        assert clock.is_held(until, now) is (hours == 1)


def test_passing_time_and_small_corrections_are_no_step(passed):
    clock = LeaseClock()
    for hours, correction in ((0, 0), (1, 1), (2, -3), (200, 0)):
        passed[0] = 1000.0 + 3600 * hours
        now = START + timedelta(hours=hours, seconds=correction)
        clock.note(now)
        assert not clock.is_held(now, now)
        assert clock.is_held(now + timedelta(seconds=1), now)
        assert not clock.is_held(None, now)
