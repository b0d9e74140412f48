"""Requests for exports: what people ask for and see."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from bln_search.core.errors import ExportLimitError
from bln_search.core.exports import OPEN_EXPORTS, ExportKey, ExportRecord
from bln_search.core.records import RowKey
from bln_search.core.states import ExportState
from bln_search.storage.database import Database
from bln_search.storage.exports.records import (
    append_export_state_event,
    make_export_record,
    select_exports,
    set_export_state,
)
from bln_search.storage.studies.lifecycle import get_and_lock_study
from bln_search.storage.tables import ExportRow, TrialRow


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
        query = select_exports().where(ExportRow.study_id == study_id, ExportRow.id == export_id)
        with self.database.read_session() as session:
            found = session.execute(query).first()
            return None if found is None else make_export_record(*found)

    def list_newest_exports(self, study_id: int, limit: int) -> list[ExportRecord]:
        """The exports of a study that were requested last, newest first."""
        query = select_exports().where(ExportRow.study_id == study_id)
        query = query.order_by(ExportRow.requested_at.desc(), ExportRow.id.desc()).limit(limit)
        with self.database.read_session() as session:
            return [make_export_record(row, trial) for row, trial in session.execute(query)]

    def list_exports_of_row(self, study_id: int, key: RowKey) -> list[ExportRecord]:
        """The exports of a row of the leaderboard, newest first."""
        query = select_exports().where(
            ExportRow.study_id == study_id,
            TrialRow.arm == key.arm,
            ExportRow.configuration == key.configuration.code,
            ExportRow.estimate == (key.estimate or ""),
            ExportRow.batch_size == key.batch_size,
        )
        query = query.order_by(ExportRow.requested_at.desc(), ExportRow.id.desc())
        with self.database.read_session() as session:
            records = [make_export_record(row, trial) for row, trial in session.execute(query)]
            return [record for record in records if record.key.row.point == key.point]

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

    def _find_or_add_export(
        self, study_id: int, key: ExportKey, account: str, keep: timedelta, limit: int | None
    ) -> ExportRecord:
        with self.database.write_session() as session:
            get_and_lock_study(session, study_id)  # one request at a time
            now = self.database.now(session)
            row = _find_export_row(session, key)
            if row is None:
                _check_account_export_limit(session, account, limit)
                row = _make_export_row(study_id, key, account, now)
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


def _find_export_row(session: Session, key: ExportKey) -> ExportRow | None:
    query = select(ExportRow).where(
        ExportRow.trial_id == key.trial_id,
        ExportRow.configuration == key.row.configuration.code,
        ExportRow.estimate == (key.row.estimate or ""),
        ExportRow.batch_size == key.row.batch_size,
        ExportRow.format == key.format,
    )
    return session.scalars(query.with_for_update()).first()


def _make_export_row(study_id: int, key: ExportKey, account: str, now: datetime) -> ExportRow:
    return ExportRow(
        study_id=study_id,
        trial_id=key.trial_id,
        configuration=key.row.configuration.code,
        estimate=key.row.estimate or "",
        batch_size=key.row.batch_size,
        format=key.format,
        state=ExportState.REQUESTED,
        account=account,
        attempt=0,
        tries=0,
        requested_at=now,
    )


def _check_account_export_limit(session: Session, account: str, limit: int | None) -> None:
    is_open = ExportRow.account == account, ExportRow.state.in_(OPEN_EXPORTS)
    count = session.scalar(select(func.count()).select_from(ExportRow).where(*is_open)) or 0
    if limit is not None and count >= limit:
        raise ExportLimitError(f"{account} has {count} exports that wait or are being built: wait for one of them")
