"""Creates records of exports from rows, and changes their state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.exports import ExportKey, ExportRecord, StoredArchive
from bln_search.core.records import RowKey
from bln_search.core.states import ExportState, check_state_transition
from bln_search.specs.records import encode_point_as_json
from bln_search.storage.events import append_event
from bln_search.storage.tables import ExportRow, TrialRow


def select_exports() -> Select[ExportRow, TrialRow]:
    """Every export with its trial, without an order."""
    return select(ExportRow, TrialRow).join(TrialRow, TrialRow.id == ExportRow.trial_id)


def make_export_record(row: ExportRow, trial: TrialRow) -> ExportRecord:
    """The record of an export."""
    estimate = row.estimate or None
    configuration = InferenceConfiguration(row.configuration)
    row_key = RowKey(trial.arm, encode_point_as_json(trial.parameters), configuration, estimate, row.batch_size)
    archive = None
    if row.file is not None:
        assert row.size is not None
        assert row.sha256 is not None
        archive = StoredArchive(row.file, row.size, row.sha256)
    return ExportRecord(
        id=row.id,
        study_id=row.study_id,
        key=ExportKey(row.trial_id, row_key, ArchiveContents(row.format)),
        seed=trial.seed,
        state=ExportState(row.state),
        step=None if row.step is None else ExportStep(row.step),
        reason=row.reason,
        account=row.account,
        attempt=row.attempt,
        requested_at=row.requested_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        expires_at=row.expires_at,
        archive=archive,
    )


def set_export_state(row: ExportRow, state: ExportState) -> None:
    """Change the state of an export, which no worker holds any more unless it runs. Raises StateTransitionError."""
    check_state_transition(ExportState(row.state), state)
    row.state = state
    row.step = None
    if state is not ExportState.RUNNING:
        row.worker = row.lease_until = None
    if state is not ExportState.READY:
        row.file = row.size = row.sha256 = row.expires_at = None


def append_export_state_event(session: Session, row: ExportRow, now: datetime, **data: Any) -> None:
    """Append the event of the present state of an export to the log of its study."""
    fields = {"export": row.id, "configuration": row.configuration, "format": row.format}
    append_event(session, row.study_id, now, f"export_{row.state}", {**fields, **data}, row.trial_id)
