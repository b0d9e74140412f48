"""What the monitoring reads of the ledger: how much there is, what waits, who works, how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState, EvaluationState, StudyState, TrialState
from bln_search.storage.engine import reading
from bln_search.storage.queue import seen_since
from bln_search.storage.tables import AttemptRow, EvaluationRow, EventRow, StudyRow, TrialRow, WorkerRow

_RECORDS: tuple[tuple[str, type[StrEnum], type[StudyRow | TrialRow | AttemptRow | EvaluationRow]], ...] = (
    ("study", StudyState, StudyRow),
    ("trial", TrialState, TrialRow),
    ("attempt", AttemptState, AttemptRow),
    ("evaluation", EvaluationState, EvaluationRow),
)


@dataclass(frozen=True)
class LedgerFigures:
    """The ledger in numbers. They tell of nobody's studies.

    waiting: studies in the queue; oldest_waiting: when the one that waits longest came into it, None where none waits.
    busy: workers seen that run a study. size: bytes. at: when all this was so, by the database's clock.
    """

    waiting: int
    oldest_waiting: datetime | None
    workers: int
    busy: int
    size: int
    at: datetime


def ledger_figures(engine: Engine, now: datetime) -> LedgerFigures:
    """All of it as it is at one moment; quick whatever the size of the ledger."""
    with reading(engine) as session:
        return LedgerFigures(*_queue(session), *_workers(session, now), _size(session), now)


def records_by_state(engine: Engine) -> dict[str, dict[str, int]]:
    """Records of each kind in every state there can be. Reads all of them."""
    with reading(engine) as session:
        return {kind: _by_state(session, states, table) for kind, states, table in _RECORDS}


def _by_state(
    session: Session, states: type[StrEnum], table: type[StudyRow | TrialRow | AttemptRow | EvaluationRow]
) -> dict[str, int]:
    counted = dict.fromkeys((state.value for state in states), 0)
    for state, count in session.execute(select(table.state, func.count()).group_by(table.state)):
        counted[state] = count
    return counted


def _queue(session: Session) -> tuple[int, datetime | None]:
    """How many wait, and since when the one that waits longest: a study handed back or resumed waits from then on."""
    since = (
        select(EventRow.at)
        .where(EventRow.study_id == StudyRow.id, EventRow.kind == f"study_{StudyState.ACCEPTED}")
        .order_by(EventRow.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    waits = select(since).where(StudyRow.state == StudyState.ACCEPTED, StudyRow.owner != "")
    found = session.scalars(waits).all()
    return len(found), min((at for at in found if at is not None), default=None)


def _workers(session: Session, now: datetime) -> tuple[int, int]:
    """Workers seen, and those of them that run a study."""
    seen = set(session.scalars(select(WorkerRow.name).where(WorkerRow.heartbeat_at > seen_since(now))))
    run = set(session.scalars(select(StudyRow.runner).where(StudyRow.state == StudyState.RUNNING)))
    return len(seen), len(seen & run)


def _size(session: Session) -> int:
    """Bytes of the database; of SQLite its file, without the journal beside it."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    return int(session.scalar(select(func.pg_database_size(func.current_database()))) or 0)
