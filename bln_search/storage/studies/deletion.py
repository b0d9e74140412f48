"""Deletion of a study, and the files of checkpoints and exports that nothing needs afterwards."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from bln_search.core.errors import StudyBusyError
from bln_search.core.states import StudyState
from bln_search.storage.studies.lifecycle import get_and_lock_study
from bln_search.storage.tables import CheckpointRow, EpochWeightsRow, ExportRow, TrialRow
from bln_search.storage.tables.trials import NO_FILE
from bln_search.storage.training_states import list_possible_training_state_files


def delete_study_and_list_unneeded_files(session: Session, study_id: int, now: datetime) -> list[str]:
    """Delete a study; results and errors as for `StudyRepository.delete`."""
    study = get_and_lock_study(session, study_id)
    running = study.state == StudyState.RUNNING
    if running and (study.owner or (study.runner_until is not None and study.runner_until > now)):
        raise StudyBusyError("the study is running: cancel it, or stop its command, before deleting it")
    checkpoints = select(CheckpointRow.file).join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
    snapshots = select(EpochWeightsRow.file).join(CheckpointRow, CheckpointRow.id == EpochWeightsRow.checkpoint_id)
    snapshots = snapshots.join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
    files, needed = (
        {
            file
            for query in (checkpoints, snapshots)
            for file in session.scalars(query.where(condition))
            if file != NO_FILE
        }
        for condition in (TrialRow.study_id == study_id, TrialRow.study_id != study_id)
    )
    archives = session.scalars(select(ExportRow.file).where(ExportRow.study_id == study_id)).all()
    states = list_possible_training_state_files(session, TrialRow.study_id == study_id)
    session.delete(study)
    return sorted({*(files - needed), *states, *(file for file in archives if file is not None)})
