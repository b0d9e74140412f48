"""The files of the checkpoint store that the studies of a database need: networks, exports, states of trainings."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState, TrialState
from bln_search.core.training_states import training_state_file_name
from bln_search.storage.tables import (
    NO_FILE,
    AttemptRow,
    CheckpointRow,
    EpochWeightsRow,
    EventRow,
    ExportRow,
    StudyRow,
    TrialRow,
)

WEIGHTS_FREED = "weights_freed"
"""Kind of the event that files were deleted to free disk space; its data has their names in `files`."""

_UNFINISHED = (TrialState.WAITING, TrialState.RUNNING, TrialState.FAILED)
"""States of a trial that may resume; a failed one does so when its study runs again."""

_NEVER_RESUMED = (StudyState.COMPLETE, StudyState.CANCELLED)
"""States of a study that needs no training state. If a cancelled study runs again, its trials start anew."""


def read_digests_by_needed_file(
    session: Session | Connection, without: Collection[tuple[int, str]] = ()
) -> dict[str, str]:
    """SHA-256 by name of every file that a study needs: its checkpoints and snapshots, unless the study freed them.

    Args:
        session: An open session.
        without: Id of a study and name of a file, for files that are treated as freed, too.
    """
    freed = {*read_freed_times_by_file(session), *without}
    return {file: sha256 for study, file, sha256 in _read_stored_files(session) if (study, file) not in freed}


def list_files_of_study(session: Session, study_id: int) -> list[str]:
    """Checkpoints that no other study has, archives of exports, and training states of a study, by name."""
    own: set[str] = set()
    other: set[str] = set()
    for study, file, _ in _read_stored_files(session):
        (own if study == study_id else other).add(file)
    archives = session.scalars(select(ExportRow.file).where(ExportRow.study_id == study_id))
    states = list_possible_training_state_files(session, TrialRow.study_id == study_id)
    return sorted({*(own - other), *states, *(file for file in archives if file is not None)})


def list_files_in_use(session: Session, without: Collection[tuple[int, str]]) -> set[str]:
    """Files of `read_digests_by_needed_file`, archives of exports, and states from which trials may resume."""
    archives = session.scalars(select(ExportRow.file).where(ExportRow.file.is_not(None)))
    states = list_possible_training_state_files(session, StudyRow.state.not_in(_NEVER_RESUMED))
    return {*read_digests_by_needed_file(session, without), *(file for file in archives if file is not None), *states}


def list_possible_training_state_files(session: Session, *conditions: ColumnElement[bool]) -> list[str]:
    """The files that attempts at unfinished trials may have written; they need not exist.

    Args:
        session: An open session.
        conditions: On the trial or its study.
    """
    trials = select(TrialRow.study_id, TrialRow.key).join(StudyRow, StudyRow.id == TrialRow.study_id)
    attempts = select(AttemptRow.trial_id).where(AttemptRow.trial_id == TrialRow.id)
    unfinished = trials.where(TrialRow.state.in_(_UNFINISHED), attempts.exists(), *conditions)
    return [training_state_file_name(study_id, key) for study_id, key in session.execute(unfinished)]


def list_trial_states_of_file(session: Session, file: str) -> list[TrialState]:
    """The states of the trials whose network, or snapshot of an epoch, is in a file."""
    of_checkpoint = select(TrialRow.state).join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
    of_snapshot = of_checkpoint.join(EpochWeightsRow, EpochWeightsRow.checkpoint_id == CheckpointRow.id)
    queries = of_checkpoint.where(CheckpointRow.file == file), of_snapshot.where(EpochWeightsRow.file == file)
    return [TrialState(state) for query in queries for state in session.scalars(query)]


def read_freed_times_by_file(
    session: Session | Connection, study_id: int | None = None
) -> dict[tuple[int, str], datetime]:
    """When each file was freed, by study and file name; of every study if `study_id` is None."""
    query = select(EventRow.study_id, EventRow.data, EventRow.at).where(EventRow.kind == WEIGHTS_FREED)
    if study_id is not None:
        query = query.where(EventRow.study_id == study_id)
    return {(study, file): at for study, data, at in session.execute(query) for file in data["files"]}


def _read_stored_files(session: Session | Connection) -> list[tuple[int, str, str]]:
    """Study, name and SHA-256 of the file of every checkpoint and snapshot."""
    checkpoints = select(TrialRow.study_id, CheckpointRow.file, CheckpointRow.sha256).join(
        CheckpointRow, CheckpointRow.trial_id == TrialRow.id
    )
    snapshots = (
        select(TrialRow.study_id, EpochWeightsRow.file, EpochWeightsRow.sha256)
        .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .join(EpochWeightsRow, EpochWeightsRow.checkpoint_id == CheckpointRow.id)
    )
    queries = checkpoints.where(CheckpointRow.file != NO_FILE), snapshots
    return [(study, file, sha256) for query in queries for study, file, sha256 in session.execute(query)]
