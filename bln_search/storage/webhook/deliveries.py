"""Deliveries of messages to the webhook: claimed by one process at a time, repeated until they are accepted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from bln_search.core.states import DeliveryState, StudyState
from bln_search.ranking.analysis import ANALYSIS_FORMAT
from bln_search.storage.database import Database
from bln_search.storage.tables import AnalysisRow, DeliveryRow, StudyRow, WebhookRow
from bln_search.storage.webhook.study_ends import THE_WEBHOOK

ATTEMPT_DURATION = timedelta(seconds=60)
"""Time after the begin of an attempt without a recorded result from which it is repeated."""

ANALYSIS_PATIENCE = timedelta(hours=1)
"""Time for which the message about a complete study waits for its analysis."""


@dataclass(frozen=True)
class DeliveryRecord:
    """The delivery of the message about one end of a study.

    Attributes:
        message_id: Id of the message, the same at every attempt.
        study_state: State in which the study ended.
        reason: Why it ended in that state; None where nothing is known.
        ended_at: When the study ended.
        attempts: Attempts that have begun.
        attempted_at: When the last attempt ended; None before the first one has.
        answer: Its result; None before the first one has ended.
        body: The message; None before it was composed.
    """

    study_id: int
    revision: int
    message_id: str
    study_state: StudyState
    reason: str | None
    ended_at: datetime
    state: DeliveryState
    attempts: int
    attempted_at: datetime | None
    answer: str | None
    body: str | None


class DeliveryRepository:
    """Assigns deliveries to services, and records their results."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def start_announcing(self) -> None:
        """Announce ends of studies from now on, unless they are announced already."""
        if not self._is_announcing():
            with self.database.write_session() as session:
                session.merge(WebhookRow(number=THE_WEBHOOK, since=self.database.now(session)))

    def stop_announcing(self) -> None:
        """Announce no further ends of studies. Deliveries that wait stay."""
        if self._is_announcing():
            with self.database.write_session() as session:
                webhook = session.get(WebhookRow, THE_WEBHOOK)
                if webhook is not None:
                    session.delete(webhook)

    def claim_due_delivery(self) -> DeliveryRecord | None:
        """Begin the next attempt of the delivery that has been due longest; None where none is due.

        No other process begins one for it within `ATTEMPT_DURATION`. The message about a complete study is due when
        its analysis is stored, at the latest after `ANALYSIS_PATIENCE`.
        """
        with self.database.read_session() as session:
            if session.scalar(select(DeliveryRow.study_id).where(*self._is_due(session)).limit(1)) is None:
                return None
        with self.database.write_session() as session:
            query = select(DeliveryRow).where(*self._is_due(session)).order_by(DeliveryRow.next_at).limit(1)
            row = session.scalars(query.with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            row.attempts += 1
            row.next_at = self.database.now(session) + ATTEMPT_DURATION
            return _make_delivery_record(row)

    def store_body(self, delivery: DeliveryRecord, body: str) -> None:
        """Store the composed message, which every later attempt repeats."""
        with self.database.write_session() as session:
            row = _get_of_attempt(session, delivery)
            if row is not None:
                row.body = body

    def record_answer(
        self, delivery: DeliveryRecord, answer: str, state: DeliveryState, delay: timedelta = timedelta(0)
    ) -> None:
        """Record the result of an attempt; does nothing after a later one began, or for a deleted study.

        Args:
            delivery: The delivery as it was claimed.
            answer: Result of the attempt.
            state: State of the delivery from now on.
            delay: Time until the next attempt, if it waits.
        """
        with self.database.write_session() as session:
            row = _get_of_attempt(session, delivery)
            if row is not None:
                now = self.database.now(session)
                row.state, row.answer, row.attempted_at, row.next_at = state, answer, now, now + delay

    def list_deliveries(self, study_id: int) -> list[DeliveryRecord]:
        """The deliveries of a study, that of its last end first."""
        query = select(DeliveryRow).where(DeliveryRow.study_id == study_id).order_by(DeliveryRow.revision.desc())
        with self.database.read_session() as session:
            return [_make_delivery_record(row) for row in session.scalars(query)]

    def _is_announcing(self) -> bool:
        with self.database.read_session() as session:
            return session.get(WebhookRow, THE_WEBHOOK) is not None

    def _is_due(self, session: Session) -> tuple[ColumnElement[bool], ...]:
        now = self.database.now(session)
        is_analyzed = (
            select(AnalysisRow.study_id)
            .join(StudyRow, StudyRow.id == AnalysisRow.study_id)
            .where(AnalysisRow.study_id == DeliveryRow.study_id)
            .where(AnalysisRow.results == StudyRow.results, AnalysisRow.format == ANALYSIS_FORMAT)
        )
        can_be_composed = or_(
            DeliveryRow.study_state != StudyState.COMPLETE,
            DeliveryRow.ended_at <= now - ANALYSIS_PATIENCE,
            is_analyzed.exists(),
        )
        return DeliveryRow.state == DeliveryState.WAITING, DeliveryRow.next_at <= now, can_be_composed


def _get_of_attempt(session: Session, delivery: DeliveryRecord) -> DeliveryRow | None:
    """The locked row, where the attempt of `delivery` is the last one and the message is still to be accepted."""
    row = session.get(DeliveryRow, (delivery.study_id, delivery.revision), with_for_update=True)
    is_last = row is not None and row.attempts == delivery.attempts and row.state == DeliveryState.WAITING
    return row if is_last else None


def _make_delivery_record(row: DeliveryRow) -> DeliveryRecord:
    return DeliveryRecord(
        study_id=row.study_id,
        revision=row.revision,
        message_id=row.message_id,
        study_state=StudyState(row.study_state),
        reason=row.reason,
        ended_at=row.ended_at,
        state=DeliveryState(row.state),
        attempts=row.attempts,
        attempted_at=row.attempted_at,
        answer=row.answer,
        body=row.body,
    )
