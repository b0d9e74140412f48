"""Exports as jobs of workers: claimed with a lease, reported on with a fencing token."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from bln_search.core.enums import ExportStep
from bln_search.core.errors import StaleAttemptError
from bln_search.core.exports import OPEN_EXPORTS, ExportAttemptKey, ExportRecord, StoredArchive
from bln_search.core.states import ExportState
from bln_search.storage.database import Database
from bln_search.storage.exports.requests import append_export_state_event, make_export_record, set_export_state
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import ExportRow, TrialRow

MAX_TRIES = 3
"""Attempts that end by a fault of a machine, after which an export has failed."""


class ExportJobQueue:
    """Assigns exports to workers, and records what the workers report."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def has_open_exports(self) -> bool:
        """Whether an export waits or runs, in one small query."""
        query = select(ExportRow.id).where(ExportRow.state.in_(OPEN_EXPORTS)).limit(1)
        with self.database.open_core_connection() as connection:
            return connection.execute(query).first() is not None

    def claim_next_export(self, worker: str, is_alive: Callable[[str], bool]) -> ExportRecord | None:
        """Lease the export that waits longest to a worker, after those of lost workers wait again.

        Args:
            worker: Process that builds it. It builds one at a time, so it does not run one that it holds already.
            is_alive: Whether the process of that name on this machine is alive.

        Returns:
            The export with the token of the attempt; None where none waits.
        """
        with self.database.write_session() as session:
            now = self.database.now(session)
            _reclaim_lost_exports(self.database, session, worker, is_alive, now)
            query = select(ExportRow).where(ExportRow.state == ExportState.REQUESTED)
            query = query.order_by(ExportRow.requested_at, ExportRow.id).limit(1)
            row = session.scalars(query.with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            set_export_state(row, ExportState.RUNNING)
            row.worker, row.lease_until = worker, now + LEASE
            row.attempt, row.tries = row.attempt + 1, row.tries + 1
            row.started_at, row.ended_at = now, None
            return make_export_record(row, session.get_one(TrialRow, row.trial_id))

    def release_lost_exports(self, is_alive: Callable[[str], bool]) -> None:
        """Let exports of lost workers wait again; `is_alive` as for `claim_next_export`."""
        if self._has_running_exports():
            with self.database.write_session() as session:
                _reclaim_lost_exports(self.database, session, None, is_alive, self.database.now(session))

    def _has_running_exports(self) -> bool:
        query = select(ExportRow.id).where(ExportRow.state == ExportState.RUNNING).limit(1)
        with self.database.read_session() as session:
            return session.scalar(query) is not None

    def record_progress(self, token: ExportAttemptKey, step: ExportStep | None) -> None:
        """Record what the worker is doing, and renew its lease. Raises StaleAttemptError."""
        with self.database.write_session() as session:
            row = _get_running_export(session, token)
            row.step = step or row.step
            row.lease_until = self.database.now(session) + LEASE

    def finish_export(self, token: ExportAttemptKey, archive: StoredArchive, keep: timedelta) -> None:
        """Record the archive of an export, which is ready and kept for `keep`. Raises StaleAttemptError."""
        with self.database.write_session() as session:
            row, now = _get_running_export(session, token), self.database.now(session)
            set_export_state(row, ExportState.READY)
            row.file, row.size, row.sha256 = archive.file, archive.size, archive.sha256
            row.expires_at, row.ended_at, row.reason = now + keep, now, None
            append_export_state_event(session, row, now, size=archive.size)

    def fail_export(self, token: ExportAttemptKey, reason: str) -> None:
        """Record that the export cannot be built. Raises StaleAttemptError."""
        with self.database.write_session() as session:
            _set_export_failed(session, _get_running_export(session, token), reason, self.database.now(session))

    def requeue_or_fail(self, token: ExportAttemptKey, reason: str) -> None:
        """Record a fault of the machine: the export waits for another attempt, or has failed after the last one.

        Raises StaleAttemptError.
        """
        with self.database.write_session() as session:
            _requeue_or_fail_export(session, _get_running_export(session, token), reason, self.database.now(session))

    def release_export(self, token: ExportAttemptKey) -> None:
        """End the attempt because the worker stops; it does not count. Does nothing for a lost attempt."""
        with self.database.write_session() as session:
            try:
                row = _get_running_export(session, token)
            except StaleAttemptError:
                return
            set_export_state(row, ExportState.REQUESTED)
            row.tries, row.ended_at = row.tries - 1, self.database.now(session)

    def expire_and_list_archives(self, max_bytes: int) -> list[str]:
        """Let archives expire that are too old, or the first to do so while all together exceed `max_bytes`.

        Returns:
            Names of their files that no other export has.
        """
        with self.database.write_session() as session:
            now, kept_bytes = self.database.now(session), 0
            kept_files, expired_files = set(), set()
            query = select(ExportRow).where(ExportRow.state == ExportState.READY)
            for row in session.scalars(query.order_by(ExportRow.expires_at.desc()).with_for_update()):
                kept_bytes += row.size or 0
                if row.expires_at is not None and row.expires_at > now and kept_bytes <= max_bytes:
                    kept_files.add(row.file)
                else:
                    expired_files.add(row.file)
                    set_export_state(row, ExportState.EXPIRED)
            return sorted(file for file in expired_files - kept_files if file is not None)


def _get_running_export(session: Session, token: ExportAttemptKey) -> ExportRow:
    """The export that this attempt builds. Raises StaleAttemptError where it does not build it any more."""
    row = session.get(ExportRow, token.export_id, with_for_update=True)
    if row is None or row.state != ExportState.RUNNING or row.attempt != token.attempt:
        state = "deleted" if row is None else f"{row.state}, attempt {row.attempt}"
        raise StaleAttemptError(
            f"export {token.export_id} is {state}: the report of attempt {token.attempt} came too late and was rejected"
        )
    return row


def _reclaim_lost_exports(
    database: Database, session: Session, worker: str | None, is_alive: Callable[[str], bool], now: datetime
) -> None:
    query = select(ExportRow).where(ExportRow.state == ExportState.RUNNING)
    for row in session.scalars(query.with_for_update(skip_locked=True)).all():
        is_held = database.lease_clock.is_held(row.lease_until, now)
        if not is_held or row.worker == worker or not is_alive(str(row.worker)):
            _requeue_or_fail_export(session, row, f"the worker {row.worker} stopped while it built the archive", now)


def _requeue_or_fail_export(session: Session, row: ExportRow, reason: str, now: datetime) -> None:
    if row.tries >= MAX_TRIES:
        _set_export_failed(session, row, f"{row.tries} attempts, the last: {reason}", now)
        return
    set_export_state(row, ExportState.REQUESTED)
    row.reason, row.ended_at = reason, now


def _set_export_failed(session: Session, row: ExportRow, reason: str, now: datetime) -> None:
    set_export_state(row, ExportState.FAILED)
    row.reason, row.ended_at = reason, now
    append_export_state_event(session, row, now, reason=reason)
