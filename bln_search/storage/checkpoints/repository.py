"""The checkpoints of studies."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError, WrongCheckpointStoreError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import StudyState
from bln_search.specs.records import TrialRecord
from bln_search.storage.checkpoints.ownership import write_ownership_marker
from bln_search.storage.checkpoints.store_link import check_store, link_store
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.needed_files import WEIGHTS_FREED, read_digests_by_needed_file, read_freed_times_by_file
from bln_search.storage.tables import NO_FILE, CheckpointRow, EventRow, StudyRow, TrialRow
from bln_search.storage.trials.records import make_checkpoint_record, read_trial_records, select_trials_with_checkpoints

_log = logging.getLogger(__name__)
_CHECKPOINT_DAMAGED = "checkpoint_damaged"
"""Kind of the event that the content of a file has changed; its data has the name of the file in `file`."""


class CheckpointRepository:
    """Reads checkpoints, and records what happened to their files."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def find_checkpoint(self, study_id: int, checkpoint_id: int) -> CheckpointRecord | None:
        """A checkpoint of a study; None where the study has none of that id."""
        with self.database.read_session() as session:
            query = select(CheckpointRow).join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            row = session.scalar(
                query.where(
                    TrialRow.study_id == study_id, CheckpointRow.id == checkpoint_id, CheckpointRow.file != NO_FILE
                )
            )
            return None if row is None else make_checkpoint_record(row)

    def list_trials_by_validation_loss(self, study_id: int, arm: str, point: str) -> list[TrialRecord]:
        """The trials of an arm at a point that have a checkpoint, lowest validation loss first."""
        with self.database.read_session() as session:
            query = select_trials_with_checkpoints(study_id, TrialRow.arm == arm, CheckpointRow.file != NO_FILE)
            trials = read_trial_records(session, query.order_by(CheckpointRow.validation_loss))
            return [trial for trial in trials if trial.point_json == point]

    def find_freed_time(self, study_id: int, file: str) -> datetime | None:
        """When the file of a study was freed; None if it was not."""
        with self.database.read_session() as session:
            return read_freed_times_by_file(session, study_id).get((study_id, file))

    def mark_files_as_freed(self, study_id: int, files: Iterable[str]) -> None:
        """Record that a complete study frees these files; does nothing if the study is not complete any more."""
        with self.database.write_session() as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is not None and study.state == StudyState.COMPLETE:
                append_event(session, study_id, self.database.now(session), WEIGHTS_FREED, {"files": sorted(files)})

    def record_damaged_file(self, study_id: int, trial_id: int, file: str) -> None:
        """Record, once for each trial, that its file is damaged; does nothing where the study was deleted."""
        recorded = select(EventRow.id).where(
            EventRow.study_id == study_id, EventRow.trial_id == trial_id, EventRow.kind == _CHECKPOINT_DAMAGED
        )
        with self.database.write_session() as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is None or session.scalar(recorded.limit(1)) is not None:
                return
            now = self.database.now(session)
            append_event(session, study_id, now, _CHECKPOINT_DAMAGED, {"file": file}, trial_id)

    def count_missing_files(self, checkpoints: CheckpointStore) -> int:
        """How many files that studies need the store lacks, such as after `restore --without-damaged`."""
        with self.database.read_session() as session:
            needed = read_digests_by_needed_file(session).keys()
        return len(needed - {file.name for file in checkpoints.iter_files()}) if needed else 0

    def check_store(self, checkpoints: CheckpointStore) -> None:
        """Raise WrongCheckpointStoreError where a store is not that of this database.

        Raises:
            CheckpointStoreError: The store cannot be read, or its folder is missing although trials ran with it.
        """
        check_store(self.database, checkpoints)

    def check_store_at_start(self, checkpoints: CheckpointStore) -> None:
        """As `check_store`, but a store that may be reachable later is logged only."""
        try:
            self.check_store(checkpoints)
        except WrongCheckpointStoreError:
            raise
        except CheckpointStoreError as error:
            _log.warning("%s", error)

    def claim_store(self, checkpoints: CheckpointStore) -> None:
        """Mark a store as that of this database: it takes no other one, and no other database removes files there.

        Raises:
            WrongCheckpointStoreError: As `check_store`.
            CheckpointStoreError: The store cannot be read or written to.
            StorageFullError: No disk space is left.
        """
        link_store(self.database, checkpoints)
        write_ownership_marker(checkpoints, self.database.engine.url)
