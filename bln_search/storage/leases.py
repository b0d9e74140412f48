"""How long a lease holds, and after how long a silent worker counts as gone."""

from __future__ import annotations

from datetime import datetime, timedelta

LEASE = timedelta(seconds=30)
"""An attempt, or a study, whose runner sent no heartbeat for so long may be taken by another worker."""

WORKER_TIMEOUT = timedelta(seconds=30)
"""A worker that sent no heartbeat for so long counts as gone."""


def live_since(now: datetime) -> datetime:
    """A worker whose last heartbeat is later than this is alive."""
    return now - WORKER_TIMEOUT
