"""Lists of trials and their learning curves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, select
from sqlalchemy.orm import Session

from bln_search.core.states import (
    AttemptState,
    FailureClass,
    StudyState,
    TrialState,
    displayed_attempt_state,
    displayed_trial_state,
)
from bln_search.specs.records import TrialRecord, encode_point_as_json
from bln_search.specs.sections.space import HORIZON_KEY
from bln_search.storage.database import Database
from bln_search.storage.pagination import PageRequest, Sorts, iter_equality_conditions, limit_to_page_plus_one
from bln_search.storage.tables import AttemptRow, EventRow, StudyRow, TrialRow
from bln_search.storage.trials.records import make_trial_record, select_trials_with_checkpoints

_TRIAL_SORTS: Sorts = {"position": TrialRow.position}
_MAX_SCANNED_TRIALS = 200
"""Number of trials of a model on a data set, newest first, whose specifications are parsed."""

_MAX_TRIALS = 20
"""Number of trials whose epochs are measured."""

_MAX_EPOCHS = 2000


@dataclass(frozen=True)
class TrialStatus:
    """A trial in the overview of a study."""

    id: int
    arm: str
    point: str
    seed: int
    state: TrialState
    reason: str | None


@dataclass(frozen=True)
class LearningCurve:
    """A trial and the events of its epochs, by epoch."""

    trial: TrialRecord
    epochs: list[dict[str, Any]]


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


class TrialLists:
    """Lists trials and learning curves of a study, with displayed states.

    A page has one row more than its limit, which shows whether another page follows. The number of queries does not
    depend on the number of rows.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_trial_page_plus_one(self, study_id: int, page: PageRequest, equal: Mapping[str, Any]) -> list[TrialRecord]:
        """A page of trials. equal: required displayed state, arm, method, seed, id; None for any."""
        columns = {name: value for name, value in equal.items() if name != "state"}
        query = select_trials_with_checkpoints(study_id, *iter_equality_conditions(TrialRow, columns))
        query = query.add_columns(StudyRow.state).join(StudyRow, StudyRow.id == TrialRow.study_id)
        if equal.get("state") is not None:
            query = query.where(_is_displayed_as(equal["state"]))
        with self.database.read_session() as session:
            return [
                replace(trial, state=displayed_trial_state(trial.state, study_state))
                for row, checkpoint, study_state in session.execute(
                    limit_to_page_plus_one(query, page, _TRIAL_SORTS, TrialRow.id)
                )
                for trial in [make_trial_record(row, checkpoint)]
            ]

    def find_trial(self, study_id: int, trial_id: int) -> TrialRecord | None:
        """A trial of a study; None where the study has none with that id."""
        trials = self.list_trial_page_plus_one(study_id, PageRequest(1, "position"), {"id": trial_id})
        return next(iter(trials), None)

    def list_trial_statuses_if_few(self, study_id: int, limit: int) -> list[TrialStatus] | None:
        """Every trial of a study, in its order; None where there are more than `limit`."""
        columns = (TrialRow.id, TrialRow.arm, TrialRow.parameters, TrialRow.seed, TrialRow.state, TrialRow.reason)
        query = select(*columns, StudyRow.state).join(StudyRow, StudyRow.id == TrialRow.study_id)
        query = query.where(TrialRow.study_id == study_id).order_by(TrialRow.position).limit(limit + 1)
        with self.database.read_session() as session:
            rows = session.execute(query).all()
        if len(rows) > limit:
            return None
        return [
            TrialStatus(
                trial_id,
                arm,
                encode_point_as_json(parameters),
                seed,
                displayed_trial_state(TrialState(state), study_state),
                reason,
            )
            for trial_id, arm, parameters, seed, state, reason, study_state in rows
        ]

    def count_trials_by_arm_and_state(self, study_id: int) -> dict[str, dict[TrialState, int]]:
        """Trials of a study by arm and displayed state."""
        columns = (TrialRow.arm, TrialRow.state, StudyRow.state)
        query = select(*columns, func.count()).join(StudyRow, StudyRow.id == TrialRow.study_id)
        query = query.where(TrialRow.study_id == study_id).group_by(*columns).order_by(TrialRow.arm)
        counts: dict[str, Counter[TrialState]] = {}
        with self.database.read_session() as session:
            for arm, state, study_state, count in session.execute(query):
                counts.setdefault(arm, Counter())[displayed_trial_state(TrialState(state), study_state)] += count
        return {arm: dict(of_arm) for arm, of_arm in counts.items()}

    def read_labels_by_trial(self, trial_ids: Sequence[int]) -> dict[int, str]:
        """Arm and seed of each trial as text, by id."""
        query = select(TrialRow.id, TrialRow.arm, TrialRow.seed).where(TrialRow.id.in_(trial_ids))
        with self.database.read_session() as session:
            return {trial_id: f"{arm} seed {seed}" for trial_id, arm, seed in session.execute(query)}

    def read_activity_by_trial(self, trial_ids: Sequence[int]) -> dict[int, TrialActivity]:
        """Attempts and last epoch of each of these trials, by id."""
        with self.database.read_session() as session:
            return read_activity_by_trial(session, trial_ids)

    def list_learning_curve_page_plus_one(
        self, study_id: int, page: PageRequest, equal: Mapping[str, Any]
    ) -> list[LearningCurve]:
        """A page of learning curves. equal: required arm, seed; None for any.

        If an epoch was trained twice, the later event counts.
        """
        return self._read_learning_curves(study_id, page, *iter_equality_conditions(TrialRow, equal))

    def list_charted_learning_curves(self, study_id: int, limit: int) -> list[LearningCurve]:
        """The learning curves of the trials that charts draw: full trainings; before the first, those of a search."""
        page = PageRequest(limit, "position")
        is_full_training = TrialRow.parameters[HORIZON_KEY].as_string().is_(None)
        curves = self._read_learning_curves(study_id, page, is_full_training)
        return (curves or self._read_learning_curves(study_id, page))[:limit]

    def _read_learning_curves(
        self, study_id: int, page: PageRequest, *conditions: ColumnElement[bool]
    ) -> list[LearningCurve]:
        query = select(TrialRow).where(TrialRow.study_id == study_id, *conditions)
        with self.database.read_session() as session:
            trials = session.scalars(limit_to_page_plus_one(query, page, _TRIAL_SORTS, TrialRow.id)).all()
            epochs: dict[int, dict[int, dict[str, Any]]] = {trial.id: {} for trial in trials}
            is_epoch = EventRow.trial_id.in_(list(epochs)), EventRow.kind == "epoch"
            events = select(EventRow.trial_id, EventRow.data).where(*is_epoch).order_by(EventRow.number)
            for trial_id, data in session.execute(events):
                epochs[trial_id or 0][data["epoch"]] = data
            return [
                LearningCurve(make_trial_record(trial, None), [data for _, data in sorted(epochs[trial.id].items())])
                for trial in trials
            ]

    def find_median_epoch_seconds_and_count(
        self, model: str, data: str, *, fraction: float, batch_size: int
    ) -> tuple[float, int] | None:
        """The median duration of the epochs that this database has of a model on a data set.

        Args:
            model: Name of the model.
            data: Name of the data set.
            fraction: Fraction of the data set that is used.
            batch_size: Mini-batch size of training.

        Returns:
            The median in seconds, and the number of epochs; None if the database has no such epoch.
        """
        finished = select(TrialRow.id, TrialRow.spec).where(
            TrialRow.spec.contains(f'"name":"{data}"', autoescape=True),
            TrialRow.spec.contains(f'"model":{{"name":"{model}"', autoescape=True),
            TrialRow.state == TrialState.FINISHED,
        )
        with self.database.read_session() as session:
            trials = session.execute(finished.order_by(TrialRow.id.desc()).limit(_MAX_SCANNED_TRIALS))
            ids = [
                trial_id
                for trial_id, spec in trials
                if _fraction_and_batch_size_of_spec(spec) == (fraction, batch_size)
            ]
            is_epoch = EventRow.trial_id.in_(ids[:_MAX_TRIALS]), EventRow.kind == "epoch"
            events = session.scalars(select(EventRow.data).where(*is_epoch).limit(_MAX_EPOCHS))
            seconds = sorted(data["seconds"] for data in events)
        return (seconds[len(seconds) // 2], len(seconds)) if seconds else None


def _is_displayed_as(state: str) -> ColumnElement[bool]:
    """The condition that a trial is displayed with this state."""
    in_cancelled_study = [one for one in TrialState if displayed_trial_state(one, StudyState.CANCELLED) == state]
    is_cancelled = StudyRow.state == StudyState.CANCELLED
    return or_(
        and_(is_cancelled, TrialRow.state.in_(in_cancelled_study)), and_(not_(is_cancelled), TrialRow.state == state)
    )


def _fraction_and_batch_size_of_spec(spec: str) -> tuple[float, int]:
    """Fraction and batch size, on which the duration of an epoch depends besides model and data set."""
    parsed = json.loads(spec)
    return parsed["data"]["fraction"], parsed["training"]["batch_size"]


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
