"""Queries for the lists of trials, learning curves and evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from bln_search.core.states import TrialState
from bln_search.specs.records import TrialRecord, point_json
from bln_search.storage.pagination import Page, Sorts, equality_filters, limit_to_page
from bln_search.storage.results.evaluations import EvaluationRecord, make_evaluation
from bln_search.storage.tables import CheckpointRow, EvaluationRow, EventRow, TrialRow
from bln_search.storage.trials.records import make_trial_record, read_trials, select_trials

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


def list_trials(session: Session, study_id: int, page: Page, equal: Mapping[str, Any]) -> list[TrialRecord]:
    """A page of trials and one more. equal: required state, arm, method, seed; None for any."""
    query = select_trials(study_id, *equality_filters(TrialRow, equal))
    return read_trials(session, limit_to_page(query, page, _TRIAL_SORTS, TrialRow.id))


def list_trial_statuses(session: Session, study_id: int, limit: int) -> list[TrialStatus] | None:
    """Every trial of a study, in its order; None where there are more than `limit`."""
    columns = (TrialRow.id, TrialRow.arm, TrialRow.parameters, TrialRow.seed, TrialRow.state, TrialRow.reason)
    query = select(*columns).where(TrialRow.study_id == study_id).order_by(TrialRow.position).limit(limit + 1)
    rows = session.execute(query).all()
    if len(rows) > limit:
        return None
    return [
        TrialStatus(trial_id, arm, point_json(parameters), seed, TrialState(state), reason)
        for trial_id, arm, parameters, seed, state, reason in rows
    ]


def list_evaluations(
    session: Session, study_id: int, page: Page, equal: Mapping[str, Any], trial: Mapping[str, Any]
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
            TrialRow.study_id == study_id, *equality_filters(EvaluationRow, equal), *equality_filters(TrialRow, trial)
        )
    )
    return [
        EvaluationRecord(
            row.id, trial_row.id, trial_row.arm, point_json(trial_row.parameters), trial_row.seed, make_evaluation(row)
        )
        for row, trial_row in session.execute(limit_to_page(query, page, _EVALUATION_SORTS, EvaluationRow.id))
    ]


def list_curves(session: Session, study_id: int, page: Page, equal: Mapping[str, Any]) -> list[LearningCurve]:
    """A page of learning curves and one more. If an epoch was trained twice, the later event counts."""
    query = select(TrialRow).where(TrialRow.study_id == study_id, *equality_filters(TrialRow, equal))
    trials = session.scalars(limit_to_page(query, page, _TRIAL_SORTS, TrialRow.id)).all()
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


def measure_epoch_seconds(
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
        if _workload_of_spec(spec) == (fraction, batch_size)
    ][:_MAX_TRIALS]
    events = select(EventRow.data).where(EventRow.trial_id.in_(trial_ids), EventRow.kind == "epoch")
    seconds = sorted(data["seconds"] for data in session.scalars(events.limit(_MAX_EPOCHS)))
    return (seconds[len(seconds) // 2], len(seconds)) if seconds else None


def _workload_of_spec(spec: str) -> tuple[float, int]:
    """Fraction and batch size, on which the duration of an epoch depends besides model and data set."""
    parsed = json.loads(spec)
    return parsed["data"]["fraction"], parsed["training"]["batch_size"]
