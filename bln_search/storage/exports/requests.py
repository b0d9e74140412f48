"""Exports of trained networks that people request, and their records."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents, ExportStep, Split
from bln_search.core.errors import ExportError, ExportLimitError
from bln_search.core.exports import OPEN_EXPORTS, ExportKey, ExportRecord, StoredArchive
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState, ExportState, check_state_transition
from bln_search.specs.records import TrialRecord, encode_point_as_json
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.needed_files import read_freed_times_by_file
from bln_search.storage.pagination import iter_equality_conditions
from bln_search.storage.studies.lifecycle import get_and_lock_study
from bln_search.storage.tables import CheckpointRow, EvaluationRow, ExportRow, TrialRow
from bln_search.storage.trials.records import make_trial_record


class ExportRepository:
    """Stores requests for exports, and reads exports."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def request_export(
        self, study_id: int, key: ExportKey, account: str, *, keep: timedelta, limit: int | None = None
    ) -> ExportRecord:
        """Request an export; the same request is the same export.

        A ready export is kept for `keep` from now on. A failed or expired one is built again.

        Args:
            study_id: The study.
            key: What is exported.
            account: Account that requests it.
            keep: How long a ready archive is kept.
            limit: Exports of the account that may wait or run at once; None for any number.

        Raises:
            ExportLimitError: The account has too many open exports.
            UnknownStudyError: The study was deleted.
        """
        try:
            return self._find_or_add_export(study_id, key, account, keep, limit)
        except IntegrityError:  # another request stored the same export at the same moment
            return self._find_or_add_export(study_id, key, account, keep, limit)

    def find_export(self, study_id: int, export_id: int) -> ExportRecord | None:
        """An export of a study; None where the study has none of that id."""
        query = _select_exports().where(ExportRow.study_id == study_id, ExportRow.id == export_id)
        return next(iter(self._read_newest_first(query)), None)

    def list_newest_exports(self, study_id: int, limit: int) -> list[ExportRecord]:
        """The exports of a study that were requested last, newest first."""
        return self._read_newest_first(_select_exports().where(ExportRow.study_id == study_id).limit(limit))

    def list_exports_of_row(self, study_id: int, key: RowKey) -> list[ExportRecord]:
        """The exports of a row of the leaderboard, newest first."""
        is_row = iter_equality_conditions(ExportRow, _row_columns(key))
        query = _select_exports().where(ExportRow.study_id == study_id, TrialRow.arm == key.arm, *is_row)
        return [record for record in self._read_newest_first(query) if record.key.row.point == key.point]

    def count_exports_waiting_before(self, record: ExportRecord) -> int:
        """The number of exports that a worker builds before one that waits."""
        earlier = (ExportRow.requested_at < record.requested_at) | (
            (ExportRow.requested_at == record.requested_at) & (ExportRow.id < record.id)
        )
        query = select(func.count()).select_from(ExportRow)
        query = query.where((ExportRow.state == ExportState.RUNNING) | earlier, ExportRow.state.in_(OPEN_EXPORTS))
        with self.database.read_session() as session:
            return session.scalar(query) or 0

    def mark_archive_lost(self, study_id: int, export_id: int) -> None:
        """Record that the archive of a ready export is gone or damaged, so that another request builds it again."""
        with self.database.write_session() as session:
            row = session.get(ExportRow, export_id, with_for_update=True)
            if row is not None and row.study_id == study_id and row.state == ExportState.READY:
                set_export_state(row, ExportState.EXPIRED)

    def get_trial_to_export(self, study_id: int, row: RowKey, seed: int | None = None) -> TrialRecord:
        """The trial of a row with this seed; by default the one with the lowest validation loss.

        Raises ExportError if the row has no such seed, or if the network was removed to free disk space.
        """
        with self.database.read_session() as session:
            losses = _read_losses_and_trial_ids_by_seed(session, study_id, row)
            if not losses:
                raise ExportError(f"the row {row.arm_configuration_and_estimate_label} has no measured network yet")
            if seed is None:
                seed = min(losses, key=lambda candidate: (losses[candidate][0], candidate))
            if seed not in losses:
                seeds = ", ".join(str(available) for available in sorted(losses))
                raise ExportError(f"this row has no result of seed {seed}; it has seeds {seeds}")
            query = select(TrialRow, CheckpointRow).join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            trial_row, checkpoint = session.execute(query.where(TrialRow.id == losses[seed][1])).one()
            trial = make_trial_record(trial_row, checkpoint, read_freed_times_by_file(session, study_id))
        if trial.freed_at is not None:
            raise ExportError(
                f"the network of seed {trial.seed} was removed on {trial.freed_at:%Y-%m-%d} to free disk space: "
                "train it again with `bln-search run` in another home, or export the recommended row"
            )
        return trial

    def _read_newest_first(self, query: Select[ExportRow, TrialRow]) -> list[ExportRecord]:
        query = query.order_by(ExportRow.requested_at.desc(), ExportRow.id.desc())
        with self.database.read_session() as session:
            return [make_export_record(row, trial) for row, trial in session.execute(query)]

    def _find_or_add_export(
        self, study_id: int, key: ExportKey, account: str, keep: timedelta, limit: int | None
    ) -> ExportRecord:
        with self.database.write_session() as session:
            get_and_lock_study(session, study_id)  # one request at a time
            now = self.database.now(session)
            columns = {"trial_id": key.trial_id, **_row_columns(key.row), "format": key.format}
            same = select(ExportRow).where(*iter_equality_conditions(ExportRow, columns))
            row = session.scalars(same.with_for_update()).first()
            if row is None:
                _check_account_export_limit(session, account, limit)
                row = ExportRow(study_id=study_id, **columns, state=ExportState.REQUESTED, account=account)
                row.attempt, row.tries, row.requested_at = 0, 0, now
                session.add(row)
                session.flush()
                append_export_state_event(session, row, now, account=account)
            elif row.state == ExportState.READY:
                row.expires_at = now + keep
            elif row.state not in OPEN_EXPORTS:
                _check_account_export_limit(session, account, limit)
                set_export_state(row, ExportState.REQUESTED)
                row.reason, row.tries, row.requested_at, row.account = None, 0, now, account
                append_export_state_event(session, row, now, account=account)
            return make_export_record(row, session.get_one(TrialRow, row.trial_id))


def _check_account_export_limit(session: Session, account: str, limit: int | None) -> None:
    is_open = ExportRow.account == account, ExportRow.state.in_(OPEN_EXPORTS)
    count = session.scalar(select(func.count()).select_from(ExportRow).where(*is_open)) or 0
    if limit is not None and count >= limit:
        raise ExportLimitError(f"{account} has {count} exports that wait or are being built: wait for one of them")


def _read_losses_and_trial_ids_by_seed(session: Session, study_id: int, row: RowKey) -> dict[int, tuple[float, int]]:
    """Validation loss on clean images and id of the trial, by seed."""
    query = select(TrialRow.seed, TrialRow.parameters, EvaluationRow.loss, TrialRow.id)
    query = query.join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
    query = query.join(EvaluationRow, EvaluationRow.checkpoint_id == CheckpointRow.id)
    measured = {"split": Split.VALIDATION, "condition": "", "state": EvaluationState.MEASURED}
    conditions = iter_equality_conditions(EvaluationRow, {**_row_columns(row), **measured})
    return {
        seed: (loss, trial_id)
        for seed, parameters, loss, trial_id in session.execute(
            query.where(TrialRow.study_id == study_id, TrialRow.arm == row.arm, *conditions)
        )
        if loss is not None and encode_point_as_json(parameters) == row.point
    }


def _row_columns(row: RowKey) -> dict[str, Any]:
    """The columns that identify a row of the leaderboard within an arm and point."""
    return {"configuration": row.configuration.code, "estimate": row.estimate or "", "batch_size": row.batch_size}


def _select_exports() -> Select[ExportRow, TrialRow]:
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
