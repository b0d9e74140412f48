"""Queries for what happened to trials: their attempts, and how far they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState, FailureClass, displayed_attempt_state
from bln_search.storage.tables import AttemptRow, EventRow, TrialRow


@dataclass(frozen=True)
class AttemptRecord:
    """An attempt at a trial.

    Attributes:
        number: Position among the attempts at the trial, from 1.
        ended_at: None while it runs.
        state: The state, by the result of the trial (`displayed_attempt_state`).
        failure: Class of the failure; None unless it failed.
        reason: Why it ended without a trained network; None otherwise.
    """

    number: int
    worker: str
    state: AttemptState
    started_at: datetime
    ended_at: datetime | None
    failure: FailureClass | None
    reason: str | None

    def duration_seconds(self, now: datetime) -> float:
        """Return its duration; until now if it runs."""
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())


@dataclass(frozen=True)
class TrialActivity:
    """What happened to a trial.

    Attributes:
        attempts: Its attempts, by number.
        epoch: The last epoch that its last attempt reported or resumed after; 0 before the first.
    """

    attempts: tuple[AttemptRecord, ...] = ()
    epoch: int = 0

    def total_attempt_seconds(self, now: datetime) -> float | None:
        """Return the duration of all attempts together; None before the first."""
        return sum(attempt.duration_seconds(now) for attempt in self.attempts) if self.attempts else None


def read_activity_by_trial(session: Session, trial_ids: Sequence[int]) -> dict[int, TrialActivity]:
    """What happened to each of these trials, by id."""
    attempts: dict[int, list[AttemptRecord]] = {trial_id: [] for trial_id in trial_ids}
    query = select(AttemptRow, TrialRow.state).join(TrialRow, TrialRow.id == AttemptRow.trial_id)
    rows = session.execute(query.where(AttemptRow.trial_id.in_(trial_ids)).order_by(AttemptRow.number))
    for row, trial_state in rows:
        attempts[row.trial_id].append(_make_attempt_record(row, trial_state))
    events = _read_last_epoch_events_by_trial(session, trial_ids)
    return {
        trial_id: TrialActivity(tuple(records), _last_epoch_of_last_attempt(records, events.get(trial_id, {})))
        for trial_id, records in attempts.items()
    }


def _last_epoch_of_last_attempt(attempts: Sequence[AttemptRecord], event: Mapping[str, Any]) -> int:
    """The epoch of the event; 0 if it is of an attempt before the last one, or there is no event."""
    is_earlier = bool(attempts) and event.get("attempt", attempts[-1].number) < attempts[-1].number
    return 0 if is_earlier else int(event.get("epoch", 0))


def _read_last_epoch_events_by_trial(session: Session, trial_ids: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """The data of the last event of an epoch, or of training resumed after one, by id of the trial."""
    is_epoch = (EventRow.trial_id.in_(trial_ids), EventRow.kind.in_(("epoch", "training_resumed")))
    last = select(func.max(EventRow.id)).where(*is_epoch).group_by(EventRow.trial_id)
    events = select(EventRow.trial_id, EventRow.data).where(EventRow.id.in_(last))
    return {trial_id: data for trial_id, data in session.execute(events) if trial_id is not None}


def _make_attempt_record(row: AttemptRow, trial_state: str) -> AttemptRecord:
    return AttemptRecord(
        number=row.number,
        worker=row.worker,
        state=displayed_attempt_state(AttemptState(row.state), trial_state),
        started_at=row.started_at,
        ended_at=row.ended_at,
        failure=None if row.failure is None else FailureClass(row.failure),
        reason=row.reason,
    )
