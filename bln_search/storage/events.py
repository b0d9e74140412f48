"""The event log of a study: append-only, numbered without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from bln_search.core.reasons import limit_reason
from bln_search.storage.bulk_insert import insert_rows
from bln_search.storage.database import Database
from bln_search.storage.tables import EventRow, StudyRow


@dataclass(frozen=True)
class EventRecord:
    """An event of a study."""

    number: int
    at: datetime
    kind: str
    trial_id: int | None
    data: dict[str, Any]


class EventRepository:
    """Reads event logs."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_events(
        self, study_id: int, after: int = 0, limit: int | None = None, *, trial_id: int | None = None
    ) -> Sequence[EventRecord]:
        """Events of a study, oldest first.

        Args:
            study_id: The study.
            after: Number above which events are listed.
            limit: Largest number of events; None for all.
            trial_id: Trial whose events are listed; None for all events.
        """
        rows = _select_events(study_id, trial_id).where(EventRow.number > after)
        return self._make_event_records(rows.order_by(EventRow.number).limit(limit))

    def list_events_of_trials(self, study_id: int, trial_ids: Sequence[int]) -> Sequence[EventRecord]:
        """Events of these trials of a study, oldest first."""
        return self._make_event_records(
            _select_events(study_id, None).where(EventRow.trial_id.in_(trial_ids)).order_by(EventRow.number)
        )

    def list_newest_events(self, study_id: int, limit: int, *, trial_id: int | None = None) -> Sequence[EventRecord]:
        """The newest `limit` events of a study, or of one of its trials, oldest first."""
        rows = _select_events(study_id, trial_id)
        return self._make_event_records(rows.order_by(EventRow.number.desc()).limit(limit))[::-1]

    def read_last_event_numbers_and_study_states(self, study_ids: Iterable[int]) -> dict[int, tuple[int, str]]:
        """For each of the studies that exists: the number of its last event, and its state."""
        rows = select(StudyRow.id, StudyRow.last_event, StudyRow.state).where(StudyRow.id.in_([*study_ids]))
        with self.database.open_core_connection() as connection:
            return {row.id: (row.last_event, row.state) for row in connection.execute(rows)}

    def _make_event_records(self, rows: Select[EventRow]) -> Sequence[EventRecord]:
        with self.database.read_session() as session:
            return [EventRecord(row.number, row.at, row.kind, row.trial_id, row.data) for row in session.scalars(rows)]


def _select_events(study_id: int, trial_id: int | None) -> Select[EventRow]:
    rows = select(EventRow).where(EventRow.study_id == study_id)
    return rows if trial_id is None else rows.where(EventRow.trial_id == trial_id)


class NewEvent(NamedTuple):
    """An event that is not numbered yet."""

    kind: str
    data: dict[str, Any]
    trial_id: int | None = None


def append_event(
    session: Session, study_id: int, at: datetime, kind: str, data: dict[str, Any], trial_id: int | None = None
) -> None:
    """Append the study's next event."""
    append_events(session, study_id, at, [NewEvent(kind, data, trial_id)])


def append_events(
    session: Session, study_id: int, at: datetime, events: Sequence[NewEvent], *, results: int = 0
) -> None:
    """Append events in their order, and count results of trials.

    The row of the study stays locked until the transaction ends: events get their numbers in the order of commits, so
    a reader that continues after the last number it read misses none. Call it as late as possible in a transaction.

    Args:
        session: An open session.
        study_id: The study.
        at: Time of the events.
        events: The events.
        results: Trials that got their result.
    """
    session.flush()
    values: dict[str, Any] = {"last_event": StudyRow.last_event + len(events)}
    if results:
        values |= {"results": StudyRow.results + results, "losses": 0}
    first = _increase_and_read_last_event(session, study_id, values) - len(events) + 1
    rows = [
        {
            "study_id": study_id,
            "number": number,
            "at": at,
            "kind": kind,
            "trial_id": trial_id,
            "data": _limit_reason_of(data),
        }
        for number, (kind, data, trial_id) in enumerate(events, start=first)
    ]
    insert_rows(session, EventRow, rows)


def _limit_reason_of(data: dict[str, Any]) -> dict[str, Any]:
    """The data of an event with a reason that can be stored and shown."""
    return {**data, "reason": limit_reason(data["reason"])} if isinstance(data.get("reason"), str) else data


def _increase_and_read_last_event(session: Session, study_id: int, values: dict[str, Any]) -> int:
    """Change the counters of a study; returns the number of its last event. The row stays locked."""
    connection = session.connection()
    increase = update(StudyRow).where(StudyRow.id == study_id).values(values)
    if connection.dialect.update_returning:
        return int(connection.execute(increase.returning(StudyRow.last_event)).scalar_one())
    connection.execute(increase)  # SQLite before 3.35, whose transactions have one writer
    return int(connection.execute(select(StudyRow.last_event).where(StudyRow.id == study_id)).scalar_one())
