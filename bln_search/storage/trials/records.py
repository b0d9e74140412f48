"""Creates records of trials and checkpoints from rows of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from bln_search.core.records import CheckpointRecord, EarlierEpochCheckpoint, provenance_without_layer_records
from bln_search.core.states import TrialState
from bln_search.specs.records import TrialRecord
from bln_search.storage.tables import NO_FILE, CheckpointRow, TrialRow

FreedFiles = Mapping[tuple[int, str], datetime]
"""When each file was freed, by id of the study and name of the file."""


def select_trials_with_checkpoints(study_id: int, *conditions: ColumnElement[bool]) -> Select[TrialRow, CheckpointRow]:
    """Trials of a study with their checkpoint (None where a trial has none), without an order."""
    query = select(TrialRow, CheckpointRow).outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
    return query.where(TrialRow.study_id == study_id, *conditions)


def read_trial_records(
    session: Session, query: Select[TrialRow, CheckpointRow], freed_files: FreedFiles | None = None
) -> list[TrialRecord]:
    """The trials of a query of `select_trials_with_checkpoints`."""
    return [make_trial_record(trial, checkpoint, freed_files) for trial, checkpoint in session.execute(query)]


def make_trial_record(
    trial: TrialRow, checkpoint: CheckpointRow | None, freed_files: FreedFiles | None = None
) -> TrialRecord:
    """The record of a trial."""
    freed_at = None
    if checkpoint is not None and freed_files is not None:
        freed_at = freed_files.get((trial.study_id, checkpoint.file))
    return TrialRecord(
        id=trial.id,
        position=trial.position,
        arm=trial.arm,
        method=trial.method,
        seed=trial.seed,
        parameters=trial.parameters,
        state=TrialState(trial.state),
        reason=trial.reason,
        checkpoint=None if checkpoint is None or checkpoint.file == NO_FILE else make_checkpoint_record(checkpoint),
        freed_at=freed_at,
        key=trial.key,
        spec_json=trial.spec,
    )


def make_checkpoint_record(row: CheckpointRow) -> CheckpointRecord:
    """The record of a checkpoint, without the drift of its layers."""
    return CheckpointRecord(
        file=row.file,
        sha256=row.sha256,
        epoch=row.epoch,
        judged_under=row.judged_under,
        validation_loss=row.validation_loss,
        provenance=provenance_without_layer_records(row.provenance),
        snapshots=tuple(
            EarlierEpochCheckpoint(snapshot.epoch, snapshot.file, snapshot.sha256) for snapshot in row.snapshots
        ),
        id=row.id,
        trial_id=row.trial_id,
        created_at=row.created_at,
    )
