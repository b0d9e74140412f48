"""Durations of leases, and after how long a worker without heartbeats counts as gone."""

from __future__ import annotations

from datetime import datetime, timedelta

LEASE = timedelta(seconds=30)
"""Time after the last heartbeat from which another worker may claim an attempt or a study."""

WORKER_TIMEOUT = timedelta(seconds=30)
"""Time after the last heartbeat from which a worker counts as gone."""


def heartbeat_cutoff(now: datetime) -> datetime:
    """The time after which the last heartbeat of a live worker was sent."""
    return now - WORKER_TIMEOUT
