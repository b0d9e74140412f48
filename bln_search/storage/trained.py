"""Trained networks of a study, and what is stored of each, one trial at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState, TrialState
from bln_search.specs.trial import TrialSpec
from bln_search.storage.engine import reading
from bln_search.storage.evaluations import written_point
from bln_search.storage.files import freed_files
from bln_search.storage.packing import unpack
from bln_search.storage.queries import checkpoint_record
from bln_search.storage.tables import CheckpointRow, EvaluationRow, OutcomesRow, TrialRow


@dataclass(frozen=True)
class TrialResult:
    """A trial with its checkpoint, None where it has none. point: the exact one.

    freed_at: when the checkpoint's file was given up to free room, None where it is kept.
    """

    id: int
    spec: TrialSpec
    point: str
    state: TrialState
    checkpoint: CheckpointRecord | None
    freed_at: datetime | None = None


def trial_results(engine: Engine, study_id: int) -> list[TrialResult]:
    """Every trial of a study, in its order."""
    with reading(engine) as session:
        freed = freed_files(session, study_id)
        query = select(TrialRow, CheckpointRow).outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        rows = session.execute(query.where(TrialRow.study_id == study_id).order_by(TrialRow.position))
        return [
            TrialResult(
                trial.id,
                TrialSpec.model_validate_json(trial.spec),
                written_point(trial.parameters),
                TrialState(trial.state),
                None if checkpoint is None else checkpoint_record(checkpoint),
                None if checkpoint is None else freed.get((study_id, checkpoint.file)),
            )
            for trial, checkpoint in rows
        ]


@dataclass(frozen=True)
class TrainedTrial:
    """A trial that is finished, with its network; kept: its file was not given up to free room."""

    id: int
    arm: str
    point: str
    seed: int
    spec: TrialSpec
    checkpoint: CheckpointRecord
    kept: bool = True


def trained_trials(
    engine: Engine, study_id: int, arm: str | None = None, point: str | None = None
) -> list[TrainedTrial]:
    """Those of a study, in its order; of one arm or point where that is named."""
    return [
        TrainedTrial(
            one.id, one.spec.arm.label, one.point, one.spec.seed, one.spec, one.checkpoint, one.freed_at is None
        )
        for one in trial_results(engine, study_id)
        if one.state is TrialState.FINISHED
        and one.checkpoint is not None
        and arm in (None, one.spec.arm.label)
        and point in (None, one.point)
    ]


def stored_evaluations(engine: Engine, trial_id: int) -> list[Evaluation]:
    """Every evaluation of one trial, with per-example outcomes, in the order they were planned."""
    with reading(engine) as session:
        query = (
            select(EvaluationRow, OutcomesRow)
            .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
            .outerjoin(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
            .where(CheckpointRow.trial_id == trial_id)
            .order_by(EvaluationRow.id)
        )
        return [_evaluation(row, packed) for row, packed in session.execute(query)]


def _evaluation(row: EvaluationRow, packed: OutcomesRow | None) -> Evaluation:
    estimate = PopulationEstimate(row.estimate) if row.estimate else None
    key = EvaluationKey(InferenceConfiguration(row.configuration), estimate, row.batch_size, Split(row.split))
    outcomes = None if packed is None else unpack(packed.losses, packed.correct, row.n)
    return Evaluation(key, EvaluationState(row.state), row.n, row.loss, row.accuracy, row.reason, outcomes)
