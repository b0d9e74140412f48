"""Files of the checkpoint store that hold the state of an unfinished training, from which the next attempt resumes."""

from __future__ import annotations

import logging

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.states import StudyState, TrialState
from bln_search.core.training_states import training_state_file_name
from bln_search.storage.database import Database
from bln_search.storage.tables import AttemptRow, StudyRow, TrialRow

_log = logging.getLogger(__name__)

_UNFINISHED = (TrialState.WAITING, TrialState.RUNNING, TrialState.FAILED)
"""States of a trial that may resume; a failed one does so when its study runs again."""

_NEVER_RESUMED = (StudyState.COMPLETE, StudyState.CANCELLED)
"""States of a study that needs no training state. If a cancelled study runs again, its trials start anew."""


class TrainingStateRepository:
    """Names and removes the files of studies; the processes of trials write them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_possible_files(self, study_id: int) -> list[str]:
        """The files that attempts at unfinished trials of a study may have written; they need not exist."""
        with self.database.read_session() as session:
            return list_possible_training_state_files(session, TrialRow.study_id == study_id)

    def remove_files_of_study(self, study_id: int, store: CheckpointStore) -> None:
        """Remove the files of a study. An error of the store is logged; `checkpoints clean` removes them later."""
        try:
            for file in self.list_possible_files(study_id):
                store.delete(file)
        except (OSError, CheckpointStoreError) as error:
            _log.warning("study %d: saved trainings are not removed: %s", study_id, error)


def list_needed_training_state_files(session: Session) -> list[str]:
    """The files from which a trial may resume."""
    return list_possible_training_state_files(session, StudyRow.state.not_in(_NEVER_RESUMED))


def list_possible_training_state_files(session: Session, *conditions: ColumnElement[bool]) -> list[str]:
    """The files that attempts at unfinished trials may have written.

    Args:
        session: An open session.
        conditions: On the trial or its study.
    """
    trials = select(TrialRow.study_id, TrialRow.key).join(StudyRow, StudyRow.id == TrialRow.study_id)
    attempts = select(AttemptRow.trial_id).where(AttemptRow.trial_id == TrialRow.id)
    unfinished = trials.where(TrialRow.state.in_(_UNFINISHED), attempts.exists(), *conditions)
    return [training_state_file_name(study_id, key) for study_id, key in session.execute(unfinished)]
