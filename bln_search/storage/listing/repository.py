"""Lists of a ledger; the number of queries does not depend on the number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from bln_search.core.states import TrialState
from bln_search.specs.records import TrialRecord
from bln_search.storage.database import Database
from bln_search.storage.listing import studies, trials
from bln_search.storage.listing.studies import StudyItemWithSpec, StudyListItem
from bln_search.storage.listing.trial_activity import TrialActivity, find_trial_activity
from bln_search.storage.listing.trials import LearningCurve, TrialStatus
from bln_search.storage.pagination import Page
from bln_search.storage.results.evaluations import EvaluationRecord
from bln_search.storage.studies.queue_order import QueuePlace, read_queue_places
from bln_search.storage.studies.tags import count_tags
from bln_search.storage.studies.trial_counts import count_trials_by_arm
from bln_search.storage.studies.version import read_study_list_version
from bln_search.storage.tables import StudyRow, TrialRow


class Listing:
    """Lists studies, trials, evaluations and learning curves.

    A page has one row more than its limit, which shows whether another page follows.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_studies(
        self,
        page: Page,
        *,
        owner: str | None = None,
        states: Sequence[str] = (),
        name: str | None = None,
        text: str | None = None,
        tags: Sequence[str] = (),
        ids: Sequence[int] | None = None,
    ) -> list[StudyListItem]:
        """A page of studies, filtered as in `listing.studies.list_studies`."""
        with self.database.read_session() as session:
            return studies.list_studies(
                session, page, owner=owner, states=states, name=name, text=text, tags=tags, ids=ids
            )

    def find_study(self, study_id: int) -> StudyItemWithSpec | None:
        """A study with its specification; None where there is none."""
        with self.database.read_session() as session:
            return studies.find_study(session, study_id)

    def count_studies(self, owner: str | None) -> int:
        """The number of studies of an owner; of all owners if None."""
        query = select(func.count()).select_from(StudyRow)
        with self.database.read_session() as session:
            return session.scalar(query if owner is None else query.where(StudyRow.owner == owner)) or 0

    def count_tags(self, owner: str | None) -> dict[str, int]:
        """The number of an owner's studies by tag, in alphabetical order; of all owners if None."""
        with self.database.read_session() as session:
            return count_tags(session, owner)

    def read_queue_places(self, limit: int) -> dict[int, QueuePlace]:
        """Places of the waiting studies of all owners by id, in the order in which workers claim them.

        Args:
            limit: Largest number of running studies of one owner.
        """
        with self.database.read_session() as session:
            return read_queue_places(session, limit)

    def read_study_list_version(self, owner: str | None = None) -> tuple[int, ...]:
        """A version of the owner's list of studies: it changes with every event of one of them."""
        with self.database.connect() as connection:
            return read_study_list_version(connection, owner)

    def list_trials(self, study_id: int, page: Page, equal: Mapping[str, Any]) -> list[TrialRecord]:
        """A page of trials. equal: required state, arm, method, seed; None for any."""
        with self.database.read_session() as session:
            return trials.list_trials(session, study_id, page, equal)

    def find_trial(self, study_id: int, trial_id: int) -> TrialRecord | None:
        """A trial of a study; None where the study has none with that id."""
        with self.database.read_session() as session:
            return next(iter(trials.list_trials(session, study_id, Page(1, "position"), {"id": trial_id})), None)

    def find_trial_activity(self, trial_ids: Sequence[int]) -> dict[int, TrialActivity]:
        """Attempts and last epoch of each of these trials, by id."""
        with self.database.read_session() as session:
            return find_trial_activity(session, trial_ids)

    def list_trial_statuses(self, study_id: int, limit: int) -> list[TrialStatus] | None:
        """Every trial of a study, in its order; None where there are more than `limit`."""
        with self.database.read_session() as session:
            return trials.list_trial_statuses(session, study_id, limit)

    def count_trials_by_arm(self, study_id: int) -> dict[str, dict[TrialState, int]]:
        """Trials of a study by arm and state."""
        with self.database.read_session() as session:
            return count_trials_by_arm(session, study_id)

    def find_trial_labels(self, trial_ids: Sequence[int]) -> dict[int, str]:
        """Arm and seed of each trial as text, by id."""
        query = select(TrialRow.id, TrialRow.arm, TrialRow.seed).where(TrialRow.id.in_(trial_ids))
        with self.database.read_session() as session:
            return {trial_id: f"{arm} seed {seed}" for trial_id, arm, seed in session.execute(query)}

    def list_evaluations(
        self, study_id: int, page: Page, equal: Mapping[str, Any], trial: Mapping[str, Any]
    ) -> list[EvaluationRecord]:
        """A page of evaluations, filtered as in `listing.trials.list_evaluations`."""
        with self.database.read_session() as session:
            return trials.list_evaluations(session, study_id, page, equal, trial)

    def list_curves(self, study_id: int, page: Page, equal: Mapping[str, Any]) -> list[LearningCurve]:
        """A page of learning curves. equal: required arm, seed; None for any."""
        with self.database.read_session() as session:
            return trials.list_curves(session, study_id, page, equal)

    def measure_epoch_seconds(
        self, model: str, data: str, *, fraction: float, batch_size: int
    ) -> tuple[float, int] | None:
        """The median duration of an epoch; see `listing.trials.measure_epoch_seconds`."""
        with self.database.read_session() as session:
            return trials.measure_epoch_seconds(session, model, data, fraction=fraction, batch_size=batch_size)
