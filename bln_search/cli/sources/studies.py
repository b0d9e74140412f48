"""Studies of the local database or of a service, as the commands read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bln_search.core.states import ENDED, StudyState, TrialState

if TYPE_CHECKING:
    from bln_search.core.enums import Split
    from bln_search.core.records import RowKey
    from bln_search.ranking.analysis import Analysis
    from bln_search.ranking.grouping import LossBySeed
    from bln_search.ranking.leaderboard import Leaderboard
    from bln_search.specs.records import StudyRecord, TrialRecord
    from bln_search.storage.events import EventRecord

FOLLOWED_STATES = (StudyState.ACCEPTED, StudyState.RUNNING)
"""States of a study that a process runs or will run: it has further events without a user's request."""


@dataclass(frozen=True)
class StudyFilter:
    """Which studies are listed.

    Attributes:
        states: Allowed states; empty for all.
        name: Text that the name contains; None for any name.
        owner: Account that owns the study; None for any.
        tags: Tags that the study has, all of them.
        limit: Largest number of studies; None for all.
    """

    states: tuple[StudyState, ...] = ()
    name: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    limit: int | None = None


ALL_STUDIES = StudyFilter()


class StudySource(Protocol):
    """Access to studies."""

    def list_studies(self, study_filter: StudyFilter = ALL_STUDIES) -> list[dict[str, object]]:
        """Return the fields of every study that passes the filter, newest first."""

    def get_study(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or your newest one with this name."""

    def list_trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study."""

    def get_leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard.

        Args:
            study: The study.
            arm: Return only the rows of this arm, with their ranks among all rows.
            on: Split that ranks; by default the study's.
        """

    def get_losses_by_row(self, study: StudyRecord, split: Split) -> dict[RowKey, LossBySeed]:
        """Return the losses of every row on a split, by seed."""

    def find_or_compute_analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis; None if there is none yet.

        Args:
            study: The study.
            allow_incomplete: Analyze a study that is not complete.
        """

    def list_events(self, study_id: int) -> list[EventRecord]:
        """Return the events of a study so far, oldest first."""

    def follow_events(self, study_id: int, after: int = 0) -> Iterator[EventRecord]:
        """Yield the events with numbers above `after` and wait for new ones, until the study ends or waits for a user.

        Args:
            study_id: The study.
            after: Number of the last event that is known.
        """

    def find_schema_revision(self) -> str | None:
        """Return the revision of the database schema; None if it is unknown."""


def study_to_list_record(study: StudyRecord) -> dict[str, object]:
    """Return the fields of a study for a list."""
    return {
        "id": study.id,
        "name": study.name,
        "owner": study.owner,
        "state": study.state.value,
        "trials": study.planned,
        "finished": sum(study.trials.get(state, 0) for state in ENDED),
        "failed": study.trials.get(TrialState.FAILED, 0),
        "created": study.created_at.isoformat(timespec="seconds"),
        "tags": " ".join(study.tags),
    }
