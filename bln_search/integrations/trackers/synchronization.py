"""Synchronizes a tracker with a study of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bln_search.core.errors import UnknownStudyError
from bln_search.integrations.trackers.study_records import (
    make_tracked_study,
    read_tracked_summary,
    read_tracked_trials,
)
from bln_search.integrations.trackers.tracker import Tracker
from bln_search.ranking.analysis import Analysis
from bln_search.storage.ledger import Ledger

_BATCH = 50
"""Number of trials whose events are read together."""


@dataclass(frozen=True)
class SynchronizedRuns:
    """What a synchronization did.

    Attributes:
        compared: Started trials that were compared with the tracker.
        written: Those of which the tracker lacked something.
    """

    compared: int = 0
    written: int = 0


class StudySynchronizer:
    """Lets a tracker write what it lacks of a study.

    The first synchronization compares every trial, a later one the trials that changed since the last complete one.
    After an error everything is compared again, because it is unknown what the tracker has.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        tracker: The tracker.
    """

    def __init__(self, ledger: Ledger, study_id: int, tracker: Tracker) -> None:
        self.ledger, self.study_id, self.tracker = ledger, study_id, tracker
        self._is_open = False
        self._last_event = 0

    def synchronize_trials(
        self,
        on_progress: Callable[[SynchronizedRuns], None] = lambda _done: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> SynchronizedRuns:
        """Let the tracker write what it lacks of the trials.

        Args:
            on_progress: Called after each trial with what is done so far.
            should_stop: Whether to return early; the rest is left to the next synchronization.

        Raises:
            TrackerError: The tracker cannot be reached or refuses.
            UnknownStudyError: The study was deleted.
        """
        done = SynchronizedRuns()
        with self._open_study():
            study = self.ledger.studies.get(self.study_id)
            last_event = self._read_last_event()
            trial_ids = self.ledger.trials.list_changed_trial_ids(self.study_id, self._last_event)
            for start in range(0, len(trial_ids), _BATCH):
                for trial in read_tracked_trials(self.ledger, study, trial_ids[start : start + _BATCH]):
                    if should_stop():
                        return done
                    done = SynchronizedRuns(done.compared + 1, done.written + self.tracker.write_trial(trial))
                    on_progress(done)
            self._last_event = last_event
        return done

    def synchronize_summary(self, analysis: Analysis | None) -> bool:
        """Let the tracker write the ranked table and the verdict. Returns whether they differed; raises as above."""
        with self._open_study():
            study = self.ledger.studies.get(self.study_id)
            return self.tracker.write_summary(read_tracked_summary(self.ledger, study, analysis))

    @contextmanager
    def _open_study(self) -> Iterator[None]:
        """Open the study in the tracker unless it is open; after an error it is opened again."""
        try:
            if not self._is_open:
                self.tracker.open_study(make_tracked_study(self.ledger.studies.get(self.study_id)))
                self._is_open = True
            yield
        except Exception:
            self._is_open, self._last_event = False, 0
            raise

    def _read_last_event(self) -> int:
        """The number of the newest event, read before the trials: a later one is of the next synchronization."""
        numbers = self.ledger.events.read_last_event_numbers_and_study_states([self.study_id])
        if self.study_id not in numbers:
            raise UnknownStudyError(f"study {self.study_id} was deleted")
        return numbers[self.study_id][0]
