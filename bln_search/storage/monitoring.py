"""Metrics of a ledger: records by state, queue length, workers, messages of the webhook, database size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.states import (
    NEVER_STORED,
    AttemptState,
    DeliveryState,
    EvaluationState,
    ExportState,
    StudyState,
    TrialState,
)
from bln_search.storage.database import Database
from bln_search.storage.tables import (
    AttemptRow,
    DeliveryRow,
    EvaluationRow,
    EventRow,
    ExportRow,
    StudyRow,
    TrialRow,
    WebhookRow,
    WorkerRow,
)
from bln_search.storage.workers import is_live_worker

_StatefulRow = StudyRow | TrialRow | AttemptRow | EvaluationRow | ExportRow | DeliveryRow

_RECORDS: tuple[tuple[str, type[StrEnum], type[_StatefulRow]], ...] = (
    ("study", StudyState, StudyRow),
    ("trial", TrialState, TrialRow),
    ("attempt", AttemptState, AttemptRow),
    ("evaluation", EvaluationState, EvaluationRow),
    ("export", ExportState, ExportRow),
    ("delivery", DeliveryState, DeliveryRow),
)


@dataclass(frozen=True)
class LedgerMetrics:
    """Metrics of a whole ledger.

    Attributes:
        waiting: Number of studies in the queue.
        oldest_waiting: When the study that waits longest entered the queue; None for an empty queue.
        workers: Number of live workers.
        busy: Number of live workers that run a study.
        oldest_undelivered: When the study ended whose message to the webhook waits longest; None without a webhook, or
            if no message waits.
        size: Size of the database in bytes.
        at: When this was measured, by the clock of the database.
    """

    waiting: int
    oldest_waiting: datetime | None
    workers: int
    busy: int
    oldest_undelivered: datetime | None
    size: int
    at: datetime


class LedgerMonitor:
    """Measures a ledger."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def measure_ledger_metrics(self) -> LedgerMetrics:
        """All metrics at one moment; the time does not grow with the ledger."""
        now = self.database.now()
        with self.database.read_session() as session:
            return LedgerMetrics(
                *_read_queue_length_and_oldest_wait(session),
                *_count_live_and_busy_workers(self.database, session, now),
                _read_oldest_undelivered(session),
                _measure_database_bytes(session),
                now,
            )

    def count_records_by_kind_and_state(self) -> dict[str, dict[str, int]]:
        """Count records of each kind by state; every possible state is a key. Scans whole tables."""
        with self.database.read_session() as session:
            return {kind: _count_by_state(session, states, table) for kind, states, table in _RECORDS}


def _count_by_state(session: Session, states: type[StrEnum], table: type[_StatefulRow]) -> dict[str, int]:
    counts = dict.fromkeys((state.value for state in states if state not in NEVER_STORED.get(states, ())), 0)
    for state, count in session.execute(select(table.state, func.count()).group_by(table.state)):
        counts[state] = count
    return counts


def _read_queue_length_and_oldest_wait(session: Session) -> tuple[int, datetime | None]:
    """The length of the queue, and since when its oldest study waits; a released or resumed study waits anew."""
    since = (
        select(EventRow.at)
        .where(EventRow.study_id == StudyRow.id, EventRow.kind == f"study_{StudyState.ACCEPTED}")
        .order_by(EventRow.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    times = session.scalars(select(since).where(StudyRow.state == StudyState.ACCEPTED, StudyRow.owner != "")).all()
    return len(times), min((at for at in times if at is not None), default=None)


def _count_live_and_busy_workers(database: Database, session: Session, now: datetime) -> tuple[int, int]:
    """Live workers, and those of them that run a study."""
    live = set(session.scalars(select(WorkerRow.name).where(is_live_worker(database, now))))
    runners = set(session.scalars(select(StudyRow.runner).where(StudyRow.state == StudyState.RUNNING)))
    return len(live), len(live & runners)


def _read_oldest_undelivered(session: Session) -> datetime | None:
    waiting = select(DeliveryRow.ended_at).where(
        DeliveryRow.state == DeliveryState.WAITING, select(WebhookRow).exists()
    )
    return session.scalar(waiting.order_by(DeliveryRow.ended_at).limit(1))


def _measure_database_bytes(session: Session) -> int:
    """Bytes of the database; for SQLite of its file without the journal."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    return int(session.scalar(select(func.pg_database_size(func.current_database()))) or 0)
