"""Queries for the lists of trials, learning curves and evaluations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState, TrialState, displayed_trial_state
from bln_search.specs.records import TrialRecord, encode_point_as_json
from bln_search.specs.trial import HORIZON_KEY
from bln_search.storage.pagination import PageRequest, Sorts, iter_equality_conditions, limit_to_page_plus_one
from bln_search.storage.results.evaluations import EvaluationRecord, make_evaluation_from_row
from bln_search.storage.tables import CheckpointRow, EvaluationRow, EventRow, StudyRow, TrialRow
from bln_search.storage.trials.records import make_trial_record, select_trials_with_checkpoints

_TRIAL_SORTS: Sorts = {"position": TrialRow.position}
_EVALUATION_SORTS: Sorts = {"id": EvaluationRow.id}
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


def list_trial_page_plus_one(
    session: Session, study_id: int, page: PageRequest, equal: Mapping[str, Any]
) -> list[TrialRecord]:
    """A page of trials and one more, with their displayed states.

    Args:
        session: An open session.
        study_id: The study.
        page: Sort order, first row and number of rows.
        equal: Required displayed state, arm, method, seed; None for any.
    """
    columns = {name: value for name, value in equal.items() if name != "state"}
    query = select_trials_with_checkpoints(study_id, *iter_equality_conditions(TrialRow, columns))
    query = query.add_columns(StudyRow.state).join(StudyRow, StudyRow.id == TrialRow.study_id)
    if equal.get("state") is not None:
        query = query.where(_is_displayed_as(equal["state"]))
    rows = session.execute(limit_to_page_plus_one(query, page, _TRIAL_SORTS, TrialRow.id))
    trials = ((make_trial_record(trial, checkpoint), study_state) for trial, checkpoint, study_state in rows)
    return [replace(trial, state=displayed_trial_state(trial.state, study_state)) for trial, study_state in trials]


def _is_displayed_as(state: str) -> ColumnElement[bool]:
    """The condition that a trial is displayed with this state."""
    in_cancelled_study = [one for one in TrialState if displayed_trial_state(one, StudyState.CANCELLED) == state]
    is_cancelled = StudyRow.state == StudyState.CANCELLED
    return or_(
        and_(is_cancelled, TrialRow.state.in_(in_cancelled_study)), and_(not_(is_cancelled), TrialRow.state == state)
    )


def list_trial_statuses_if_few(session: Session, study_id: int, limit: int) -> list[TrialStatus] | None:
    """Every trial of a study, in its order, with its displayed state; None where there are more than `limit`."""
    columns = (TrialRow.id, TrialRow.arm, TrialRow.parameters, TrialRow.seed, TrialRow.state, TrialRow.reason)
    query = select(*columns, StudyRow.state).join(StudyRow, StudyRow.id == TrialRow.study_id)
    query = query.where(TrialRow.study_id == study_id).order_by(TrialRow.position).limit(limit + 1)
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


def count_trials_by_arm_and_state(session: Session, study_id: int) -> dict[str, dict[TrialState, int]]:
    """Trials of a study by arm and displayed state."""
    columns = (TrialRow.arm, TrialRow.state, StudyRow.state)
    query = select(*columns, func.count()).join(StudyRow, StudyRow.id == TrialRow.study_id)
    query = query.where(TrialRow.study_id == study_id).group_by(*columns).order_by(TrialRow.arm)
    counts: dict[str, Counter[TrialState]] = {}
    for arm, state, study_state, count in session.execute(query):
        counts.setdefault(arm, Counter())[displayed_trial_state(TrialState(state), study_state)] += count
    return {arm: dict(of_arm) for arm, of_arm in counts.items()}


def list_evaluation_page_plus_one(
    session: Session, study_id: int, page: PageRequest, equal: Mapping[str, Any], trial: Mapping[str, Any]
) -> list[EvaluationRecord]:
    """A page of evaluations and one more.

    Args:
        session: An open session.
        study_id: The study.
        page: Sort order, first row and number of rows.
        equal: Required configuration, estimate, batch_size, split, condition, state; None for any.
        trial: Required arm, seed, id of the trial; None for any.
    """
    query = (
        select(EvaluationRow, TrialRow)
        .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(
            TrialRow.study_id == study_id,
            *iter_equality_conditions(EvaluationRow, equal),
            *iter_equality_conditions(TrialRow, trial),
        )
    )
    return [
        EvaluationRecord(
            row.id,
            trial_row.id,
            trial_row.arm,
            encode_point_as_json(trial_row.parameters),
            trial_row.seed,
            make_evaluation_from_row(row),
        )
        for row, trial_row in session.execute(limit_to_page_plus_one(query, page, _EVALUATION_SORTS, EvaluationRow.id))
    ]


def list_learning_curve_page_plus_one(
    session: Session, study_id: int, page: PageRequest, equal: Mapping[str, Any]
) -> list[LearningCurve]:
    """A page of learning curves and one more. If an epoch was trained twice, the later event counts."""
    return _read_learning_curves(
        session, page, TrialRow.study_id == study_id, *iter_equality_conditions(TrialRow, equal)
    )


def list_charted_learning_curves(session: Session, study_id: int, limit: int) -> list[LearningCurve]:
    """The learning curves of the trials that charts draw: full trainings; before the first, those of a search."""
    page = PageRequest(limit, "position")
    is_full_training = TrialRow.parameters[HORIZON_KEY].as_string().is_(None)
    curves = _read_learning_curves(session, page, TrialRow.study_id == study_id, is_full_training)
    return (curves or _read_learning_curves(session, page, TrialRow.study_id == study_id))[:limit]


def _read_learning_curves(session: Session, page: PageRequest, *conditions: ColumnElement[bool]) -> list[LearningCurve]:
    query = select(TrialRow).where(*conditions)
    trials = session.scalars(limit_to_page_plus_one(query, page, _TRIAL_SORTS, TrialRow.id)).all()
    epochs: dict[int, dict[int, dict[str, Any]]] = {trial.id: {} for trial in trials}
    events = select(EventRow.trial_id, EventRow.data).where(
        EventRow.trial_id.in_(list(epochs)), EventRow.kind == "epoch"
    )
    for trial_id, data in session.execute(events.order_by(EventRow.number)):
        epochs[trial_id or 0][data["epoch"]] = data
    return [
        LearningCurve(make_trial_record(trial, None), [data for _, data in sorted(epochs[trial.id].items())])
        for trial in trials
    ]


def find_median_epoch_seconds_and_count(
    session: Session, model: str, data: str, *, fraction: float, batch_size: int
) -> tuple[float, int] | None:
    """The median duration of the epochs that this database has of a model on a data set.

    Args:
        session: An open session.
        model: Name of the model.
        data: Name of the data set.
        fraction: Fraction of the data set that is used.
        batch_size: Mini-batch size of training.

    Returns:
        The median in seconds, and the number of epochs; None if the database has no such epoch.
    """
    finished_trials = select(TrialRow.id, TrialRow.spec).where(
        TrialRow.spec.contains(f'"name":"{data}"', autoescape=True),
        TrialRow.spec.contains(f'"model":{{"name":"{model}"', autoescape=True),
        TrialRow.state == TrialState.FINISHED,
    )
    trial_ids = [
        trial_id
        for trial_id, spec in session.execute(finished_trials.order_by(TrialRow.id.desc()).limit(_MAX_SCANNED_TRIALS))
        if _fraction_and_batch_size_of_spec(spec) == (fraction, batch_size)
    ][:_MAX_TRIALS]
    events = select(EventRow.data).where(EventRow.trial_id.in_(trial_ids), EventRow.kind == "epoch")
    seconds = sorted(data["seconds"] for data in session.scalars(events.limit(_MAX_EPOCHS)))
    return (seconds[len(seconds) // 2], len(seconds)) if seconds else None


def _fraction_and_batch_size_of_spec(spec: str) -> tuple[float, int]:
    """Fraction and batch size, on which the duration of an epoch depends besides model and data set."""
    parsed = json.loads(spec)
    return parsed["data"]["fraction"], parsed["training"]["batch_size"]
