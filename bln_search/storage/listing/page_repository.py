"""Lists of a ledger; the number of queries does not depend on the number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from bln_search.core.states import TrialState
from bln_search.specs.records import TrialRecord
from bln_search.storage.database import Database
from bln_search.storage.listing import studies, trials
from bln_search.storage.listing.studies import StudyListItem, StudyListItemWithSpec
from bln_search.storage.listing.trial_activity import TrialActivity, read_activity_by_trial
from bln_search.storage.listing.trials import LearningCurve, TrialStatus
from bln_search.storage.pagination import PageRequest
from bln_search.storage.results.evaluations import EvaluationRecord
from bln_search.storage.studies.queue_order import QueuePlace, read_queue_places
from bln_search.storage.studies.tags import count_studies_by_tag
from bln_search.storage.studies.version import read_study_list_version
from bln_search.storage.tables import StudyRow, TrialRow


class ListingRepository:
    """Lists studies, trials, evaluations and learning curves.

    A page has one row more than its limit, which shows whether another page follows.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_study_page_plus_one(
        self,
        page: PageRequest,
        *,
        owner: str | None = None,
        states: Sequence[str] = (),
        name: str | None = None,
        text: str | None = None,
        tags: Sequence[str] = (),
        ids: Sequence[int] | None = None,
    ) -> list[StudyListItem]:
        """A page of studies, filtered as in `listing.studies.list_study_page_plus_one`."""
        with self.database.read_session() as session:
            return studies.list_study_page_plus_one(
                session, page, owner=owner, states=states, name=name, text=text, tags=tags, ids=ids
            )

    def find_study_item(self, study_id: int) -> StudyListItemWithSpec | None:
        """A study with its specification; None where there is none."""
        with self.database.read_session() as session:
            return studies.find_study_item(session, study_id)

    def count_studies(self, owner: str | None) -> int:
        """The number of studies of an owner; of all owners if None."""
        query = select(func.count()).select_from(StudyRow)
        with self.database.read_session() as session:
            return session.scalar(query if owner is None else query.where(StudyRow.owner == owner)) or 0

    def count_studies_by_tag(self, owner: str | None) -> dict[str, int]:
        """The number of an owner's studies by tag, in alphabetical order; of all owners if None."""
        with self.database.read_session() as session:
            return count_studies_by_tag(session, owner)

    def read_queue_places(self, limit: int) -> dict[int, QueuePlace]:
        """Places of the waiting studies of all owners by id, in the order in which workers claim them.

        Args:
            limit: Largest number of running studies of one owner.
        """
        with self.database.read_session() as session:
            return read_queue_places(session, limit)

    def read_study_list_version(self, owner: str | None = None) -> tuple[int, ...]:
        """A version of the owner's list of studies: it changes with every event of one of them."""
        with self.database.open_core_connection() as connection:
            return read_study_list_version(connection, owner)

    def list_trial_page_plus_one(self, study_id: int, page: PageRequest, equal: Mapping[str, Any]) -> list[TrialRecord]:
        """A page of trials. equal: required state, arm, method, seed; None for any."""
        with self.database.read_session() as session:
            return trials.list_trial_page_plus_one(session, study_id, page, equal)

    def find_trial(self, study_id: int, trial_id: int) -> TrialRecord | None:
        """A trial of a study; None where the study has none with that id."""
        with self.database.read_session() as session:
            return next(
                iter(trials.list_trial_page_plus_one(session, study_id, PageRequest(1, "position"), {"id": trial_id})),
                None,
            )

    def read_activity_by_trial(self, trial_ids: Sequence[int]) -> dict[int, TrialActivity]:
        """Attempts and last epoch of each of these trials, by id."""
        with self.database.read_session() as session:
            return read_activity_by_trial(session, trial_ids)

    def list_trial_statuses_if_few(self, study_id: int, limit: int) -> list[TrialStatus] | None:
        """Every trial of a study, in its order; None where there are more than `limit`."""
        with self.database.read_session() as session:
            return trials.list_trial_statuses_if_few(session, study_id, limit)

    def count_trials_by_arm_and_state(self, study_id: int) -> dict[str, dict[TrialState, int]]:
        """Trials of a study by arm and displayed state."""
        with self.database.read_session() as session:
            return trials.count_trials_by_arm_and_state(session, study_id)

    def read_labels_by_trial(self, trial_ids: Sequence[int]) -> dict[int, str]:
        """Arm and seed of each trial as text, by id."""
        query = select(TrialRow.id, TrialRow.arm, TrialRow.seed).where(TrialRow.id.in_(trial_ids))
        with self.database.read_session() as session:
            return {trial_id: f"{arm} seed {seed}" for trial_id, arm, seed in session.execute(query)}

    def list_evaluation_page_plus_one(
        self, study_id: int, page: PageRequest, equal: Mapping[str, Any], trial: Mapping[str, Any]
    ) -> list[EvaluationRecord]:
        """A page of evaluations, filtered as in `listing.trials.list_evaluations`."""
        with self.database.read_session() as session:
            return trials.list_evaluation_page_plus_one(session, study_id, page, equal, trial)

    def list_learning_curve_page_plus_one(
        self, study_id: int, page: PageRequest, equal: Mapping[str, Any]
    ) -> list[LearningCurve]:
        """A page of learning curves. equal: required arm, seed; None for any."""
        with self.database.read_session() as session:
            return trials.list_learning_curve_page_plus_one(session, study_id, page, equal)

    def list_charted_learning_curves(self, study_id: int, limit: int) -> list[LearningCurve]:
        """The learning curves that charts draw; see `listing.trials.list_charted_learning_curves`."""
        with self.database.read_session() as session:
            return trials.list_charted_learning_curves(session, study_id, limit)

    def find_median_epoch_seconds_and_count(
        self, model: str, data: str, *, fraction: float, batch_size: int
    ) -> tuple[float, int] | None:
        """The median duration of an epoch; see `listing.trials.find_median_epoch_seconds_and_count`."""
        with self.database.read_session() as session:
            return trials.find_median_epoch_seconds_and_count(
                session, model, data, fraction=fraction, batch_size=batch_size
            )
