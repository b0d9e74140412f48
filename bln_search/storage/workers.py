"""Worker processes that take studies from the queue, and their heartbeats."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, delete, select

from bln_search.storage.database import Database
from bln_search.storage.leases import WORKER_TIMEOUT
from bln_search.storage.tables import WorkerRow

_FORGOTTEN_AFTER = 100 * WORKER_TIMEOUT
"""Time after the last heartbeat from which a worker is removed."""


class WorkerRepository:
    """Registers workers, records their heartbeats, lists those that are alive."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def record_heartbeat(self, worker: str, device: str, version: str) -> None:
        """Record that a worker is alive, and register it if it is new. Remove workers without recent heartbeats."""
        with self.database.write_session() as session:
            now = self.database.now(session)
            row = session.get(WorkerRow, worker)
            if row is None:
                session.add(WorkerRow(name=worker, started_at=now, heartbeat_at=now, device=device, version=version))
            else:
                row.heartbeat_at = now
            session.execute(delete(WorkerRow).where(WorkerRow.heartbeat_at < now - _FORGOTTEN_AFTER))

    def remove_worker(self, worker: str) -> None:
        """Remove a worker that ends."""
        with self.database.write_session() as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name == worker))

    def list_live_workers(self) -> list[WorkerRow]:
        """The workers whose last heartbeat is recent, by name."""
        is_live = is_live_worker(self.database, self.database.now())
        with self.database.read_session() as session:
            return list(session.scalars(select(WorkerRow).where(is_live).order_by(WorkerRow.name)))


def is_live_worker(database: Database, now: datetime) -> ColumnElement[bool]:
    """The condition that the last heartbeat of a worker is recent."""
    after, latest = database.lease_clock.held_range(now)
    return (WorkerRow.heartbeat_at > after - WORKER_TIMEOUT) & (WorkerRow.heartbeat_at <= latest - WORKER_TIMEOUT)
