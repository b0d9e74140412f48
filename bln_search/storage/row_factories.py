"""Creates rows of the tables from records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey, ProbeResult
from bln_search.core.states import StudyState, TrialState
from bln_search.storage.outcome_codec import encode_metrics
from bln_search.storage.tables import StudyRow, TrialRow

if TYPE_CHECKING:
    from bln_search.specs.study import StudySpec
    from bln_search.specs.trial import TrialSpec

_CHECKPOINT = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance")
_EVALUATION = ("state", "reason", "n", "loss", "accuracy")
_PROBE = ("kind", "epoch", "n", "loss", "accuracy", "deviation", "flips")
"""Columns with the names of the attributes of records."""


def make_study_row(study: StudySpec, now: datetime, owner: str, planned: int) -> StudyRow:
    """The row of an accepted study that will have `planned` trials."""
    return StudyRow(
        name=study.name,
        digest=study.digest,
        spec=study.canonical_json(),
        kind=study.kind,
        state=StudyState.ACCEPTED,
        revision=1,
        owner=owner,
        title=study.title,
        notes="",
        planned=planned,
        results=0,
        losses=0,
        last_event=0,
        priority=0,
        created_at=now,
    )


def make_waiting_trial_rows(trials: Sequence[TrialSpec], study_id: int, *, position: int = 0) -> list[TrialRow]:
    """Rows of waiting trials. position: that of the first trial in the study."""
    return [
        TrialRow(
            study_id=study_id,
            key=trial.key,
            position=trial_position,
            arm=trial.arm.label,
            method=trial.arm.method,
            seed=trial.seed,
            spec=trial.model_dump_json(),
            state=TrialState.WAITING,
            parameters=trial.parameters,
        )
        for trial_position, trial in enumerate(trials, start=position)
    ]


def make_checkpoint_column_values(record: CheckpointRecord, trial_id: int, now: datetime) -> dict[str, Any]:
    """The columns of a checkpoint, without its snapshots."""
    return {"trial_id": trial_id, **_read_attributes(record, _CHECKPOINT), "created_at": now}


def make_snapshot_column_values(record: CheckpointRecord, checkpoint_id: int) -> list[dict[str, Any]]:
    """The columns of the snapshots of a checkpoint."""
    columns = ("epoch", "file", "sha256")
    return [{"checkpoint_id": checkpoint_id, **_read_attributes(each, columns)} for each in record.snapshots]


def make_evaluation_column_values(evaluation: Evaluation, checkpoint_id: int) -> dict[str, Any]:
    """The columns of an evaluation, without its outcomes."""
    key, values = _make_key_values(evaluation.key, checkpoint_id), _read_attributes(evaluation, _EVALUATION)
    return {**key, **values, "metrics": encode_metrics(evaluation.metrics)}


def make_probe_column_values(probe: ProbeResult, checkpoint_id: int) -> dict[str, Any]:
    """The columns of a probe."""
    return {**_make_key_values(probe.key, checkpoint_id), **_read_attributes(probe, _PROBE)}


def _read_attributes(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _make_key_values(key: EvaluationKey, checkpoint_id: int) -> dict[str, Any]:
    return {
        "checkpoint_id": checkpoint_id,
        "configuration": str(key.configuration),
        "estimate": key.estimate or "",
        "batch_size": key.batch_size,
        "split": key.split,
        "condition": key.condition,
    }
