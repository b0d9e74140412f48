"""Builds requested exports in a thread of the worker, beside its trials."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    CodeChangedError,
    DataError,
    ExportError,
    ModelError,
    SchemaChangedError,
    StaleAttemptError,
    StorageFullError,
    UnknownStudyError,
)
from bln_search.core.exports import ExportAttemptKey, ExportRecord, StoredArchive, export_archive_base_name
from bln_search.core.process_identity import may_be_alive
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.storage.leases import LEASE
from bln_search.storage.ledger import Ledger
from bln_search.worker.exports.archive import (
    ArchiveProcess,
    ArchiveTask,
    BuildFailure,
    remove_abandoned_folders,
    scratch_folder,
)
from bln_search.worker.exports.trained_row import load_requested_row

_log = logging.getLogger(__name__)
_POLL_INTERVAL = 1.0
"""Seconds between two queries for requests."""

_RETRY_DELAY = 10.0
"""Seconds to wait after a fault of this machine, so that another one may take the export."""

_HEARTBEAT_INTERVAL = LEASE.total_seconds() / 3
_EXPIRY_INTERVAL = 60.0
"""Seconds between two searches for archives that have expired."""


@dataclass(frozen=True)
class ArchiveRetentionLimits:
    """How long an archive is kept, and how many bytes all archives may have together."""

    keep: timedelta
    max_bytes: int


class ExportBuilder:
    """Builds one export at a time, each in a process of its own.

    Args:
        ledger: Ledger with the requests.
        environment: Folders and checkpoint store.
        limits: How long archives are kept.
        find_disk_problem: Why nothing may be built because disk space is low; None where there is enough.
    """

    def __init__(
        self,
        ledger: Ledger,
        environment: ExecutionEnvironment,
        limits: ArchiveRetentionLimits,
        find_disk_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.ledger, self.environment, self.limits = ledger, environment, limits
        self.find_disk_problem = find_disk_problem
        self.worker = ""
        self._stopping = threading.Event()
        self._finishing = threading.Event()
        self._expiry_at = 0.0

    def start_thread(self, worker: str, should_stop: threading.Event) -> None:
        """Start the thread of a worker.

        Args:
            worker: Name of the worker.
            should_stop: Set when the worker stops; the running export is released then.
        """
        self.worker, self._stopping = worker, should_stop
        self._finishing.clear()
        self._thread = threading.Thread(target=self._run_thread, daemon=True, name="exports")
        self._thread.start()

    def wait_for_thread(self) -> None:
        """Wait for the end of the thread, which builds what is requested unless the worker stops."""
        self._finishing.set()
        self._thread.join()

    def _run_thread(self) -> None:
        remove_abandoned_folders(self.environment.cache)
        while not self._stopping.is_set():
            try:
                if self._build_next_export():
                    continue
                if self._finishing.is_set():
                    return
                self._stopping.wait(_POLL_INTERVAL)
            except SchemaChangedError:
                return  # the main thread reports it
            except BlnSearchError as error:
                _log.error("exports: %s; retrying in %.0f seconds", error, _RETRY_DELAY)
                self._stopping.wait(_RETRY_DELAY)
            except Exception:  # noqa: BLE001 - one export must not end the thread; its attempt counts as lost
                _log.exception("exports: unexpected error; retrying in %.0f seconds", _RETRY_DELAY)
                self._stopping.wait(_RETRY_DELAY)

    def _build_next_export(self) -> bool:
        self._remove_expired_archives_if_due()
        if not self.ledger.export_jobs.has_open_exports() or self.find_disk_problem() is not None:
            return False
        record = self.ledger.export_jobs.claim_next_export(self.worker, may_be_alive)
        if record is None:
            return False
        _log.info("study %d: export %d started", record.study_id, record.id, extra={"study_id": record.study_id})
        try:
            self._build_and_record(record)
        except StaleAttemptError as error:
            _log.warning("study %d: %s", record.study_id, error, extra={"study_id": record.study_id})
        return True

    def _build_and_record(self, record: ExportRecord) -> None:
        """Build an export and record the result. Raises StaleAttemptError where another worker has it now."""
        try:
            self.ledger.checkpoints.claim_store(self.environment.checkpoints)
            result = self._run_archive_process(record)
        except (ExportError, DataError, ModelError, CodeChangedError, UnknownStudyError) as error:
            result = BuildFailure(str(error), is_machine_fault=False)
        except OSError as error:
            result = BuildFailure(f"no process could be started: {error}", is_machine_fault=True)
        except (CheckpointStoreError, StorageFullError) as error:
            result = BuildFailure(str(error), is_machine_fault=True)
        if result is None:
            self.ledger.export_jobs.release_export(record.running_attempt_key)
        elif isinstance(result, BuildFailure):
            self._record_failure(record, result)
        else:
            self._record_archive(record, result)

    def _run_archive_process(self, record: ExportRecord) -> StoredArchive | BuildFailure | None:
        """Return the result of a process, whose steps are recorded; None where the worker stops."""
        row = load_requested_row(self.ledger, record)
        name = export_archive_base_name(row.study, record)
        with scratch_folder(self.environment.cache) as scratch:
            task = ArchiveTask(row, record.key.format, self.environment, name, scratch, self.limits.max_bytes)
            with ArchiveProcess(task) as process:
                return self._wait_for_process_result(process, record.running_attempt_key)

    def _wait_for_process_result(
        self, process: ArchiveProcess, token: ExportAttemptKey
    ) -> StoredArchive | BuildFailure | None:
        """Return the result of a process; None where the worker stops before. Send heartbeats meanwhile.

        A process whose step takes longer than the timeout of a trial has failed.
        """
        heartbeat_at = step_at = time.monotonic()
        timeout = self.environment.trial_timeout
        while not self._stopping.is_set():
            message = process.receive_message(timeout=0.5)
            if isinstance(message, StoredArchive | BuildFailure):
                return message
            now = time.monotonic()
            step_at = step_at if message is None else now
            if timeout is not None and now - step_at > timeout:
                return BuildFailure(f"a step took longer than {timeout:g} s", is_machine_fault=False)
            if message is not None or now - heartbeat_at > _HEARTBEAT_INTERVAL:
                heartbeat_at = now
                self.ledger.export_jobs.record_progress(token, message)
        return None

    def _record_failure(self, record: ExportRecord, failure: BuildFailure) -> None:
        log_fields = {"study_id": record.study_id}
        _log.warning("study %d: export %d: %s", record.study_id, record.id, failure.reason, extra=log_fields)
        if failure.is_machine_fault:
            self.ledger.export_jobs.requeue_or_fail(record.running_attempt_key, failure.reason)
            self._stopping.wait(_RETRY_DELAY)
        else:
            self.ledger.export_jobs.fail_export(record.running_attempt_key, failure.reason)

    def _record_archive(self, record: ExportRecord, archive: StoredArchive) -> None:
        try:
            self.ledger.export_jobs.finish_export(record.running_attempt_key, archive, self.limits.keep)
        except StaleAttemptError:
            self._remove_archive_files([archive.file])
            raise
        _log.info("study %d: export %d is ready", record.study_id, record.id, extra={"study_id": record.study_id})

    def _remove_expired_archives_if_due(self) -> None:
        if time.monotonic() < self._expiry_at:
            return
        self._expiry_at = time.monotonic() + _EXPIRY_INTERVAL
        files = self.ledger.export_jobs.expire_and_list_archives(self.limits.max_bytes)
        if files:
            _log.info("%d archives of exports have expired", len(files))
            self._remove_archive_files(files)

    def _remove_archive_files(self, files: list[str]) -> None:
        with suppress(OSError, CheckpointStoreError):  # `checkpoints clean` removes them later
            self.ledger.garbage.remove_unreferenced_files(self.environment.checkpoints, files)
