"""Writes the results of a study to a tracker while the study runs, in a thread beside its trials."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bln_search.core.errors import BlnSearchError, SchemaChangedError, UnknownStudyError
from bln_search.core.reasons import describe_exception
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.integrations.trackers.synchronization import StudySynchronizer
from bln_search.integrations.trackers.target import TrackerTarget
from bln_search.integrations.trackers.tracker import NetworkRegistry, Tracker, open_tracker
from bln_search.storage.ledger import Ledger
from bln_search.worker.tracking.recommended_network import register_recommended_network

_log = logging.getLogger(__name__)
_INTERVAL = 5.0
"""Seconds between two synchronizations."""

_FINAL_SECONDS = 60.0
_INTERRUPTED_SECONDS = 5.0
"""Longest time in seconds that the end of a study, or of a process that is stopped, waits for the tracker."""


class LiveTracking:
    """Synchronizes a tracker with a study every few seconds, and a last time when the study ends.

    A tracker that is down or slow delays no trial: its thread reports it once, and writes what is missing later.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        target: The tracker.
        environment: Folders of data and checkpoints, for the recommended network.
    """

    def __init__(self, ledger: Ledger, study_id: int, target: TrackerTarget, environment: ExecutionEnvironment) -> None:
        self.ledger, self.study_id, self.target, self.environment = ledger, study_id, target, environment
        self._log_fields = {"study_id": study_id}
        self._is_failing = False
        self._finishing, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run_thread, daemon=True, name="tracker")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, seconds: float = _FINAL_SECONDS) -> None:
        """Wait until the tracker has everything, but at most this time; a warning says what completes the rest."""
        self._finishing.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._stopping.set()
            self._warn(f"the tracker {self.target} does not have all results after {seconds:g} s; {self._remedy}")

    @property
    def _remedy(self) -> str:
        return f"`bln-search export-runs {self.study_id} --to {self.target}` writes what it lacks"

    def _warn(self, message: str) -> None:
        _log.warning("study %d: %s", self.study_id, message, extra=self._log_fields)

    def _run_thread(self) -> None:
        try:
            tracker = open_tracker(self.target)
        except Exception as error:  # noqa: BLE001 - of the tracker's library, as below
            self._report_failure(error, is_last=True)
            return
        try:
            self._synchronize_until_finished(tracker)
        except UnknownStudyError:
            _log.info("study %d: deleted; its tracker keeps what it has", self.study_id, extra=self._log_fields)
        except SchemaChangedError:
            pass  # the main thread reports it
        finally:
            tracker.close()

    def _synchronize_until_finished(self, tracker: Tracker) -> None:
        synchronizer = StudySynchronizer(self.ledger, self.study_id, tracker)
        is_last = False
        while not is_last and not self._stopping.is_set():
            is_last = self._finishing.wait(_INTERVAL)
            try:
                synchronizer.synchronize_trials(should_stop=self._stopping.is_set)
                if is_last and not self._stopping.is_set():
                    self._synchronize_result(synchronizer, tracker)
            except (UnknownStudyError, SchemaChangedError):
                raise
            except Exception as error:  # noqa: BLE001 - a tracker must not end a run, whatever its library raises
                self._report_failure(error, is_last=is_last)
            else:
                self._report_recovery()

    def _synchronize_result(self, synchronizer: StudySynchronizer, tracker: Tracker) -> None:
        """Write the ranked table; of a complete study also the network of its recommended row."""
        study = self.ledger.studies.get(self.study_id)
        stored = self.ledger.analyses.find_current_analysis(self.study_id)
        analysis = None if stored is None else stored.analysis
        synchronizer.synchronize_summary(analysis)
        if study.state is StudyState.COMPLETE and isinstance(tracker, NetworkRegistry):
            sentence = register_recommended_network(self.ledger, study, analysis, tracker, self.environment)
            _log.info("study %d: %s", self.study_id, sentence, extra=self._log_fields)

    def _report_failure(self, error: Exception, *, is_last: bool) -> None:
        """Log the first of several failures, and the last one, which no further synchronization follows."""
        text = str(error) if isinstance(error, BlnSearchError) else self.target.redact(describe_exception(error))
        if is_last:
            self._warn(f"{text}; {self._remedy}")
        elif not self._is_failing:
            self._warn(f"{text}; the study runs on, and the tracker gets its results when it works again")
        self._is_failing = True

    def _report_recovery(self) -> None:
        if self._is_failing:
            self._warn(f"the tracker {self.target} works again")
        self._is_failing = False


@contextmanager
def track_study(
    study_id: int, *, ledger: Ledger, target: TrackerTarget, environment: ExecutionEnvironment
) -> Iterator[None]:
    """Synchronize a tracker with a study inside the block, and at its end, which waits for it.

    For the arguments see `LiveTracking`.
    """
    tracking = LiveTracking(ledger, study_id, target, environment)
    tracking.start()
    try:
        yield
    except BaseException:
        tracking.finish(_INTERRUPTED_SECONDS)
        raise
    tracking.finish()
