"""Studies of the local database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from bln_search.cli.sources.studies import ALL_STUDIES, FOLLOWED_STATES, StudyFilter, study_to_list_record
from bln_search.core.errors import BlnSearchError, MissingPackageError
from bln_search.core.process_identity import may_be_alive
from bln_search.core.states import StudyState, displayed_trial_state

if TYPE_CHECKING:
    from bln_search.core.enums import Split
    from bln_search.core.records import RowKey
    from bln_search.ranking.analysis import Analysis
    from bln_search.ranking.grouping import LossBySeed
    from bln_search.ranking.leaderboard import Leaderboard
    from bln_search.specs.records import StudyRecord, TrialRecord
    from bln_search.storage.events import EventRecord
    from bln_search.storage.ledger import Ledger

_POLL_SECONDS = 0.5
"""Interval between two reads of the events that are followed."""


class LedgerSource:
    """Studies of the local database."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def list_studies(self, study_filter: StudyFilter = ALL_STUDIES) -> list[dict[str, object]]:
        """Return the fields of every study that passes the filter, newest first."""
        self._release_lost_studies()
        studies = (study for study in self.ledger.studies.list_studies() if _study_passes_filter(study, study_filter))
        return [study_to_list_record(study) for study in islice(studies, study_filter.limit)]

    def get_study(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or the newest with this name."""
        self._release_lost_studies()
        return self.ledger.studies.get_by_name_or_id(name_or_id)

    def list_trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study with their displayed states."""
        study = self.ledger.studies.get(study_id)
        return [
            replace(trial, state=displayed_trial_state(trial.state, study.state))
            for trial in self.ledger.trials.list_trials(study_id)
        ]

    def get_leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard."""
        board = self.ledger.results.rank_rows_of_study(study.id, study.spec, on=on)
        return board if arm is None else replace(board, rows=tuple(row for row in board.rows if row.arm == arm))

    def get_losses_by_row(self, study: StudyRecord, split: Split) -> dict[RowKey, LossBySeed]:
        """Return the losses of every row on a split, by seed."""
        from bln_search.ranking.grouping import group_losses_by_row

        return group_losses_by_row(self.ledger.results.list_evaluations_for_ranking(study.id), split)

    def find_or_compute_analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis; compute it if it is not stored."""
        if study.state is not StudyState.COMPLETE and not allow_incomplete:
            return None
        stored = self.ledger.analyses.find_current_analysis(study.id)
        if stored is not None:
            return stored.analysis
        try:
            from bln_search.worker.analysis import compute_and_store_analysis
        except ModuleNotFoundError as error:
            if allow_incomplete:
                raise MissingPackageError(error.name, "search") from None
            return None
        return compute_and_store_analysis(self.ledger, study.id, None, save=False)

    def list_events(self, study_id: int) -> list[EventRecord]:
        """Return the events of a study so far, oldest first."""
        return list(self.ledger.events.list_events(study_id))

    def follow_events(self, study_id: int, after: int = 0) -> Iterator[EventRecord]:
        """Yield the events with numbers above `after` and wait for new ones."""
        while True:
            self._release_lost_studies()
            header = self.ledger.studies.find_header(study_id)  # before its events, of which none is missed then
            for event in self.ledger.events.list_events(study_id, after):
                yield event
                after = event.number
            if header is None or header.state not in FOLLOWED_STATES:
                return
            time.sleep(_POLL_SECONDS)

    def _release_lost_studies(self) -> None:
        """Let no study say that it runs whose process was killed."""
        with suppress(BlnSearchError):  # a full disk, or a database that another process writes; reading goes on
            self.ledger.studies.release_lost_studies(may_be_alive)

    def find_schema_revision(self) -> str | None:
        """Return the revision of the database schema."""
        return self.ledger.find_schema_revision()


def _study_passes_filter(study: StudyRecord, study_filter: StudyFilter) -> bool:
    is_named = study_filter.name is None or study_filter.name in study.name
    is_owned = study_filter.owner in (None, study.owner)
    is_tagged = {*study_filter.tags} <= {*study.tags}
    return is_named and is_owned and is_tagged and (not study_filter.states or study.state in study_filter.states)
