"""What is read from the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from bln_search.core.enums import Split
from bln_search.core.records import CheckpointRecord, Outcomes, Snapshot, without_drift
from bln_search.core.states import StudyState, TrialState
from bln_search.specs.search import Objective
from bln_search.specs.space import point_label
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec
from bln_search.storage.engine import reading
from bln_search.storage.evaluations import written_point
from bln_search.storage.packing import unpack
from bln_search.storage.tables import CheckpointRow, EvaluationRow, EventRow, OutcomesRow, StudyRow, TrialRow


@dataclass(frozen=True)
class StudySummary:
    """A study and how far it is: trials by state."""

    id: int
    name: str
    state: StudyState
    created_at: datetime
    ended_at: datetime | None
    trials: dict[TrialState, int]
    spec: StudySpec
    planned: int
    reason: str | None = None


@dataclass(frozen=True)
class OpenTrial:
    """A trial without a result yet, with its checkpoint where it is trained already."""

    id: int
    spec: TrialSpec
    checkpoint: CheckpointRecord | None


@dataclass(frozen=True)
class TrialSummary:
    """A trial as it stands; parameters: its point for people, point: the exact one."""

    id: int
    arm: str
    method: str
    seed: int
    parameters: str
    state: TrialState
    reason: str | None
    checkpoint: CheckpointRecord | None
    point: str


@dataclass(frozen=True)
class PointTrial:
    """A trial of a sampled point: what a sampler learns from. `losses` are the validation losses by epoch."""

    id: int
    arm: str
    key: str
    parameters: dict[str, Any]
    state: TrialState
    losses: dict[int, float] = field(default_factory=dict)
    checkpoint: CheckpointRecord | None = None
    best_loss: float | None = None

    def measure(self, objective: Objective) -> float | None:
        """The figure of a finished trial, None where it has none."""
        if objective is Objective.BEST_LOSS:
            return self.best_loss
        if self.checkpoint is None:
            return None
        if objective is Objective.LOSS:
            return self.checkpoint.validation_loss
        value = self.checkpoint.provenance.get(objective.value)
        return None if value is None else float(value)


@dataclass(frozen=True)
class Event:
    """One entry of a study's event log."""

    number: int
    at: datetime
    kind: str
    trial_id: int | None
    data: dict[str, Any]


def study_row(session: Session, name_or_id: str) -> StudyRow | None:
    """The study of that id, or the newest one of that name; what is both is the id."""
    if name_or_id.isascii() and name_or_id.isdigit() and len(name_or_id) < 10:
        row = session.get(StudyRow, int(name_or_id))
        if row is not None:
            return row
    newest = select(StudyRow).where(StudyRow.name == name_or_id).order_by(StudyRow.id.desc()).limit(1)
    return session.scalars(newest).one_or_none()


def summarize(session: Session, row: StudyRow) -> StudySummary:
    """A study with the states of its trials."""
    counted = session.execute(
        select(TrialRow.state, func.count()).where(TrialRow.study_id == row.id).group_by(TrialRow.state)
    )
    return _summary(row, {TrialState(state): count for state, count in counted})


def summaries(session: Session) -> list[StudySummary]:
    """Every study, newest first, in two queries."""
    counted: dict[int, dict[TrialState, int]] = {}
    for study_id, state, count in session.execute(
        select(TrialRow.study_id, TrialRow.state, func.count()).group_by(TrialRow.study_id, TrialRow.state)
    ):
        counted.setdefault(study_id, {})[TrialState(state)] = count
    rows = session.scalars(select(StudyRow).order_by(StudyRow.id.desc()))
    return [_summary(row, counted.get(row.id, {})) for row in rows]


def _summary(row: StudyRow, trials: dict[TrialState, int]) -> StudySummary:
    return StudySummary(
        id=row.id,
        name=row.name,
        state=StudyState(row.state),
        created_at=row.created_at,
        ended_at=row.ended_at,
        trials=trials,
        spec=StudySpec.model_validate_json(row.spec),
        planned=max(row.planned, sum(trials.values())),
        reason=row.reason,
    )


def open_trials(session: Session, study_id: int, trial_id: int | None = None) -> list[OpenTrial]:
    """Trials that wait for training or evaluation, in the order of the study; or the one asked for."""
    only = [] if trial_id is None else [TrialRow.id == trial_id]
    rows = session.execute(
        select(TrialRow, CheckpointRow)
        .outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .where(TrialRow.study_id == study_id, TrialRow.state.in_((TrialState.WAITING, TrialState.TRAINED)), *only)
        .order_by(TrialRow.position)
    )
    return [
        OpenTrial(trial.id, TrialSpec.model_validate_json(trial.spec), _checkpoint(checkpoint))
        for trial, checkpoint in rows
    ]


def trials(engine: Engine, study_id: int) -> list[TrialSummary]:
    """Every trial of a study, in its order."""
    with reading(engine) as session:
        rows = session.execute(
            select(TrialRow, CheckpointRow)
            .outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .where(TrialRow.study_id == study_id)
            .order_by(TrialRow.position)
        )
        return [
            TrialSummary(
                trial.id,
                trial.arm,
                trial.method,
                trial.seed,
                point_label(trial.parameters or {}),
                TrialState(trial.state),
                trial.reason,
                _checkpoint(checkpoint),
                written_point(trial.parameters),
            )
            for trial, checkpoint in rows
        ]


def points(engine: Engine, study_id: int, key: str | None = None) -> list[list[PointTrial]]:
    """The trials of every sampled point, points in the order they were suggested; or of the one `key` belongs to."""
    with reading(engine) as session:
        best = (
            select(func.min(EvaluationRow.loss))
            .where(EvaluationRow.checkpoint_id == CheckpointRow.id, EvaluationRow.split == Split.VALIDATION)
            .scalar_subquery()
        )
        rows = session.execute(
            select(TrialRow, CheckpointRow, best)
            .outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .where(TrialRow.study_id == study_id)
            .order_by(TrialRow.position)
        ).all()
        found: dict[tuple[str, str], list[PointTrial]] = {}
        for trial, checkpoint, lowest in rows:
            if trial.parameters is not None:
                one = PointTrial(trial.id, trial.arm, trial.key, trial.parameters, TrialState(trial.state))
                one = replace(one, checkpoint=_checkpoint(checkpoint), best_loss=lowest)
                found.setdefault((trial.arm, written_point(trial.parameters)), []).append(one)
        wanted = [trials for trials in found.values() if key is None or key in (trial.key for trial in trials)]
        losses = _losses(session, study_id, [trial.id for trials in wanted for trial in trials])
        return [[replace(trial, losses=losses.get(trial.id, {})) for trial in trials] for trials in wanted]


def _losses(session: Session, study_id: int, trial_ids: list[int]) -> dict[int, dict[int, float]]:
    """Validation losses by trial and epoch."""
    losses: dict[int, dict[int, float]] = {}
    epochs = select(EventRow).where(EventRow.study_id == study_id, EventRow.kind == "epoch")
    for event in session.scalars(epochs.where(EventRow.trial_id.in_(trial_ids)).order_by(EventRow.number)):
        losses.setdefault(event.trial_id or 0, {})[event.data["epoch"]] = event.data["validation_loss"]
    return losses


def outcomes(engine: Engine, evaluation_id: int) -> Outcomes | None:
    """The per-example results of an evaluation, None where it has none."""
    with reading(engine) as session:
        packed = session.get(OutcomesRow, evaluation_id)
        if packed is None:
            return None
        n = session.get_one(EvaluationRow, evaluation_id).n
        return unpack(packed.losses, packed.correct, n)


def events(engine: Engine, study_id: int, after: int = 0) -> list[Event]:
    """The study's events with numbers above `after`, oldest first."""
    with reading(engine) as session:
        rows = session.scalars(
            select(EventRow).where(EventRow.study_id == study_id, EventRow.number > after).order_by(EventRow.number)
        )
        return [Event(row.number, row.at, row.kind, row.trial_id, row.data) for row in rows]


def _checkpoint(row: CheckpointRow | None) -> CheckpointRecord | None:
    return None if row is None else checkpoint_record(row)


def checkpoint_record(row: CheckpointRow) -> CheckpointRecord:
    """A trained network, without the figures of every layer."""
    origin = without_drift(row.provenance)
    snapshots = tuple(Snapshot(one.epoch, one.file, one.sha256) for one in row.snapshots)
    return CheckpointRecord(row.file, row.sha256, row.epoch, row.judged_under, row.validation_loss, origin, snapshots)
