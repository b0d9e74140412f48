"""Trials with their networks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, select

from bln_search.core.records import CheckpointRecord
from bln_search.specs.trial import TrialSpec
from bln_search.storage.engine import reading
from bln_search.storage.evaluations import written_point
from bln_search.storage.queries import checkpoint_record
from bln_search.storage.tables import CheckpointRow, TrialRow


@dataclass(frozen=True)
class TrainedTrial:
    """A trial whose network is on disk."""

    id: int
    arm: str
    point: str
    seed: int
    spec: TrialSpec
    checkpoint: CheckpointRecord


def trained_trials(
    engine: Engine, study_id: int, arm: str | None = None, point: str | None = None
) -> list[TrainedTrial]:
    """Those of a study, in its order; of one arm or point where that is named."""
    with reading(engine) as session:
        query = (
            select(TrialRow, CheckpointRow)
            .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .where(TrialRow.study_id == study_id, *([] if arm is None else [TrialRow.arm == arm]))
            .order_by(TrialRow.position)
        )
        found = [
            TrainedTrial(
                trial.id,
                trial.arm,
                written_point(trial.parameters),
                trial.seed,
                TrialSpec.model_validate_json(trial.spec),
                checkpoint_record(checkpoint),
            )
            for trial, checkpoint in session.execute(query)
        ]
    return [one for one in found if point is None or one.point == point]
