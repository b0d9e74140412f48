"""A worker of a service: claims one study after another from the queue, runs it and analyses it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    ClusterError,
    CodeChangedError,
    DataError,
    DataReadError,
    ModelError,
    SchemaChangedError,
    SpecError,
    StorageFullError,
    StudyLeaseLostError,
    UnknownStudyError,
)
from bln_search.core.process_identity import may_be_alive, name_of_this_process
from bln_search.core.reasons import describe_exception
from bln_search.core.states import StudyState
from bln_search.core.stop_signals import call_stop_on_signal
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import Executor
from bln_search.execution.messages import Message, describe_trial_end
from bln_search.search.preflight import run_preflight_checks
from bln_search.specs.trial import TrialSpec
from bln_search.storage.ledger import Ledger
from bln_search.worker.analysis import AnalysisLayerSearchOptions, compute_and_store_analysis
from bln_search.worker.analysis.stop_check import AnalysisStopCheck
from bln_search.worker.exports.builder import ExportBuilder
from bln_search.worker.layer_search import SearchStoppedError
from bln_search.worker.presence import HeartbeatSender
from bln_search.worker.study_run import run_study

_log = logging.getLogger(__name__)
_POLL_INTERVAL = 1.0
"""Seconds between two queries of an empty queue."""

_RETRY_DELAY = 10.0
"""Seconds to wait when the database or the disk fails, or after an unexpected error."""

_MAX_ERRORS = 2
"""Unexpected errors in a row after which a study has failed."""

_MAX_MACHINE_ERRORS = 5
"""The same number for errors that are probably a fault of the machine."""


class QueueWorker:
    """Runs studies until a signal stops it.

    Args:
        ledger: Ledger with the queue.
        environment: Where studies run.
        executor: Executor of their trials.
        cap: Largest number of running studies of one owner.
        find_disk_problem: Why no study may start because disk space is low; None where there is enough.
        exports: Builds requested exports meanwhile; None to leave them to other workers.
        track_study: Writes a study, by its number, to a tracker inside a block.
    """

    def __init__(
        self,
        ledger: Ledger,
        environment: ExecutionEnvironment,
        executor: Executor,
        cap: int,
        find_disk_problem: Callable[[], str | None] = lambda: None,
        exports: ExportBuilder | None = None,
        track_study: Callable[[int], AbstractContextManager[None]] = lambda _study_id: nullcontext(),
    ) -> None:
        self.ledger, self.environment, self.executor, self.cap = ledger, environment, executor, cap
        self.find_disk_problem, self.exports, self.track_study = find_disk_problem, exports, track_study
        self.is_disk_low = False
        self.is_store_lost = False
        self.name = name_of_this_process()
        self.stopping = threading.Event()
        self.stop_signal: int | None = None
        self.study_id: int | None = None

    def run_until_stopped(self, *, once: bool = False) -> None:
        """Run studies until a stop signal (see `STOP_SIGNALS`), which releases the running study.

        Args:
            once: Whether to return when no study and no export waits.

        Raises:
            ClusterError: The Ray cluster is gone. A process joins a cluster only once: the supervisor starts another.
            SchemaChangedError: The database was upgraded meanwhile.
        """
        presence = HeartbeatSender(self.ledger, self.name, self.environment.device, lambda: self.study_id)
        handle_signals = call_stop_on_signal(self.stopping.is_set, self._request_stop)
        with handle_signals, presence, self._building_exports_meanwhile():
            while not self.stopping.is_set():
                try:
                    if not self._has_disk_space_for_study() or not self._has_store_for_study():
                        self.stopping.wait(_RETRY_DELAY)
                    elif not self._run_or_analyze_next_study():
                        if once:
                            return
                        self.stopping.wait(_POLL_INTERVAL)
                except KeyboardInterrupt:
                    self.stopping.set()
                except (ClusterError, SchemaChangedError):
                    raise
                except CheckpointStoreError as error:
                    self.study_id = None
                    self.is_store_lost = True
                    _log.error(
                        "%s: no study starts until the store works; it is tried every %.0f seconds", error, _RETRY_DELAY
                    )
                    self.stopping.wait(_RETRY_DELAY)
                except BlnSearchError as error:
                    self.study_id = None
                    _log.error("%s; retrying in %.0f seconds", error, _RETRY_DELAY)
                    self.stopping.wait(_RETRY_DELAY)
        if self.stop_signal is not None:
            name = signal.Signals(self.stop_signal).name
            _log.warning("stopped by %s; a study that ran waits in the queue for the next `bln-search worker`", name)

    def _request_stop(self, number: int) -> None:
        self.stop_signal = number
        self.stopping.set()

    @contextmanager
    def _building_exports_meanwhile(self) -> Iterator[None]:
        """Build exports meanwhile; at the end those that are requested, unless the worker stops."""
        if self.exports is None:
            yield
            return
        self.exports.start_thread(self.name, self.stopping)
        try:
            yield
        except BaseException:
            self.stopping.set()
            raise
        finally:
            self.exports.wait_for_thread()

    def _run_or_analyze_next_study(self) -> bool:
        self.ledger.check_schema_unchanged()
        study_id = self.ledger.queue.claim_next_study(self.name, may_be_alive, self.cap)
        self.study_id = study_id
        if study_id is None:
            return self._claim_and_analyze_study()
        with self.track_study(study_id):
            self._run_study(study_id)
        self.study_id = None
        return True

    def _has_disk_space_for_study(self) -> bool:
        reason = self.find_disk_problem()
        if reason is not None and not self.is_disk_low:
            _log.error("no study starts: %s", reason)
        elif reason is None and self.is_disk_low:
            _log.warning("enough disk space is free again")
        self.is_disk_low = reason is not None
        return reason is None

    def _has_store_for_study(self) -> bool:
        """Whether the checkpoint store works again after an error; always where none occurred."""
        if self.is_store_lost:
            try:
                self.ledger.checkpoints.check_store(self.environment.checkpoints)
                self.environment.checkpoints.check_read_and_write_access()
            except (CheckpointStoreError, StorageFullError):
                return False
            _log.warning("the checkpoint store %s works again", self.environment.checkpoints)
            self.is_store_lost = False
        return True

    def _run_study(self, study_id: int) -> None:
        """Run a study. An error of the study fails it; an error of this machine releases it for other workers."""
        log_fields = {"study_id": study_id}
        _log.info("study %d: claimed", study_id, extra=log_fields)
        try:
            self.ledger.checkpoints.check_store(self.environment.checkpoints)
            for remark in run_preflight_checks(self.ledger.studies.get(study_id).spec, self.environment):
                _log.warning("study %d: %s", study_id, remark, extra=log_fields)
            self.ledger.checkpoints.claim_store(self.environment.checkpoints)
            watcher, should_stop = _LoggingRunWatcher(study_id), self.stopping.is_set
            checkpoints = self.environment.checkpoints
            state = run_study(
                self.ledger,
                study_id,
                self.executor,
                watcher,
                should_stop,
                self.find_disk_problem,
                checkpoints,
                on_look=lambda line: _log.info("study %d: %s", study_id, line, extra=log_fields),
            )
        except DataReadError as error:
            _log.warning("study %d: %s", study_id, error, extra=log_fields)
            self._record_error_and_release_study(study_id, error)
        except (SpecError, DataError, ModelError, CodeChangedError) as error:
            _log.warning("study %d: %s", study_id, error, extra=log_fields)
            self.ledger.studies.fail_unless_claimed(study_id, self.name, str(error))
        except StudyLeaseLostError as error:
            _log.warning("study %d: %s", study_id, error, extra=log_fields)
        except SchemaChangedError:
            raise
        except BlnSearchError:
            self._release_study(study_id)
            raise
        except Exception as error:  # noqa: BLE001 - one study must not end the worker
            _log.exception("study %d: unexpected error", study_id, extra=log_fields)
            self._record_error_and_release_study(study_id, error)
        else:
            self._analyze_or_wait_after_run(study_id, state)

    def _analyze_or_wait_after_run(self, study_id: int, state: StudyState) -> None:
        _log.info("study %d: %s", study_id, state, extra={"study_id": study_id})
        if state is StudyState.COMPLETE:
            self._claim_and_analyze_study(study_id)
        # some trials could not run here and now; where disk space is low, the next iteration waits anyway
        if state is StudyState.ACCEPTED and self._has_disk_space_for_study():
            self.stopping.wait(_RETRY_DELAY)

    def _claim_and_analyze_study(self, study_id: int | None = None) -> bool:
        """Analyse a complete study, this one or any; False where every study is analysed or being analysed."""
        claimed = self.ledger.analyses.claim_study_without_analysis(self.name, study_id)
        if claimed is None:
            return False
        self.study_id = claimed
        _log.info("study %d: analysis started", claimed, extra={"study_id": claimed})
        try:
            with self.track_study(claimed) if study_id is None else nullcontext():
                self._analyze(claimed)
        finally:
            self.study_id = None
            with suppress(BlnSearchError):  # the lease expires otherwise
                self.ledger.analyses.release_study(self.name, claimed)
        return True

    def _analyze(self, study_id: int) -> None:
        log_fields = {"study_id": study_id}

        def log_progress(line: str) -> None:
            _log.info("study %d: %s", study_id, line, extra=log_fields)

        should_stop = AnalysisStopCheck(self.ledger, study_id, self.stopping)
        options = AnalysisLayerSearchOptions(log_progress, should_stop=should_stop)
        try:
            compute_and_store_analysis(self.ledger, study_id, self.environment, options)
        except SearchStoppedError:
            end = "deleted while it was analysed" if should_stop.is_deleted else "another worker resumes its analysis"
            _log.info("study %d: %s", study_id, end, extra=log_fields)
        except UnknownStudyError:
            _log.info("study %d: deleted before it was analysed", study_id, extra=log_fields)

    def _record_error_and_release_study(self, study_id: int, error: Exception) -> None:
        """Record an unexpected error, and release the study unless it has failed with it."""
        is_machine_error = isinstance(error, OSError | EOFError | MemoryError | DataReadError)
        reason = describe_exception(error)
        limit = _MAX_MACHINE_ERRORS if is_machine_error else _MAX_ERRORS
        if not self.ledger.studies.record_worker_error_or_fail(study_id, self.name, reason, limit):
            self._release_study(study_id)
        self.stopping.wait(_RETRY_DELAY)

    def _release_study(self, study_id: int) -> None:
        try:
            self.ledger.studies.finish_run(study_id, exhausted=False, runner=self.name)
        except BlnSearchError as error:
            _log.warning("study %d: not released (%s); its lease will expire", study_id, error)


class _LoggingRunWatcher:
    def __init__(self, study_id: int) -> None:
        self.study_id = study_id

    def on_run_start(self, trials: int) -> None:
        _log.info("study %d: %d open trials", self.study_id, trials, extra={"study_id": self.study_id})

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        end = describe_trial_end(message)
        if end is not None:
            log_fields = {"study_id": self.study_id, "trial": trial.key}
            _log.info("study %d: %s: %s", self.study_id, trial.label, end, extra=log_fields)
