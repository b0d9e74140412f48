"""Restores a backup: verifies it, then writes its files, then its database in one transaction."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import delete, func, select, update

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import BackupError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.files.private import make_private_folder
from bln_search.core.names import format_count_with_noun
from bln_search.core.sqlite import make_sqlite_url
from bln_search.core.states import ENDED, AttemptState, StudyState
from bln_search.storage.backups.archive import BackedUpFile, BackupManifest, BackupStore
from bln_search.storage.backups.copy_rows import (
    copy_and_count_all_rows,
    delete_all_rows,
    read_last_assigned_ids,
    set_last_assigned_ids,
)
from bln_search.storage.backups.create import OnProgress
from bln_search.storage.checkpoints.ownership import write_ownership_marker
from bln_search.storage.checkpoints.store_link import relink_store
from bln_search.storage.database import Database
from bln_search.storage.engine import consistent_read_connection, make_engine, schema_transaction
from bln_search.storage.events import append_event
from bln_search.storage.migration import (
    create_or_upgrade_tables,
    describe_unknown_revision,
    find_database_schema_revision,
    known_schema_revisions,
    newest_known_schema_revision,
)
from bln_search.storage.needed_files import list_trial_states_of_file
from bln_search.storage.studies.lifecycle import set_study_state, state_after_release
from bln_search.storage.tables import AttemptRow, StudyRow, TrialRow, WorkerRow
from bln_search.storage.trials.attempts import AttemptRepository
from bln_search.storage.workers import WorkerRepository

_ATTEMPT_GAP = 1_000_000
"""Number of attempt ids that are skipped after a restoration.

Ids of attempts are fencing tokens. A worker from before the restoration may report under an id above the last one of
the backup, which must not be the id of a new attempt.
"""


@dataclass(frozen=True)
class VerifiedBackup:
    """A backup whose files are intact, except for the absent networks of its manifest.

    Attributes:
        archive: Archive of the backup.
        manifest: Its manifest, in which damaged networks count as absent.
        database: A copy of its database in the schema of this version, in which no study runs.
        waiting: Number of studies that were running when the backup was created, and wait now.
    """

    archive: BackupStore
    manifest: BackupManifest
    database: Path
    waiting: int


@contextmanager
def open_verified_backup(
    archive: BackupStore,
    manifest: BackupManifest,
    scratch: Path,
    on_progress: OnProgress,
    *,
    without_damaged: bool = False,
) -> Iterator[VerifiedBackup]:
    """Read and verify every file of a backup.

    Args:
        archive: Archive of the backup.
        manifest: Manifest of the backup.
        scratch: Folder in which a copy of its database is upgraded to this version.
        on_progress: Called with a line for every network that is damaged or missing.
        without_damaged: Treat these networks as absent when the backup was created, instead of raising BackupError.

    Raises:
        BackupError: the database is damaged, or of a schema revision that this version does not know.
    """
    if manifest.schema_revision not in known_schema_revisions():
        raise BackupError(
            f"the backup in {archive}, created by version {manifest.bln_search}, has "
            f"{describe_unknown_revision(manifest.schema_revision)}"
        )
    make_private_folder(scratch)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".restore-") as folder:
        database = Path(folder) / "ledger.sqlite3"
        _fetch_database_file(archive, manifest.database, database)
        damaged = dict(_iter_damaged_networks(archive, manifest))
        for name, problem in damaged.items():
            on_progress(f"{archive}/checkpoints/{name} is {problem}")
        if damaged and not without_damaged:
            raise BackupError(
                f"the backup in {archive} cannot be restored as it was: {len(damaged)} of its "
                f"{len(manifest.checkpoints)} networks are damaged or missing; --without-damaged restores all others"
            )
        engine = make_engine(make_sqlite_url(database))
        try:
            create_or_upgrade_tables(engine)
            waiting = _reset_running_and_count_waiting_studies(Database(engine))
        finally:
            engine.dispose()
        yield VerifiedBackup(archive, _mark_networks_as_absent(manifest, damaged), database, waiting)


def _fetch_database_file(archive: BackupStore, file: BackedUpFile, target: Path) -> None:
    """Copy the database of a backup to `target`. Raises BackupError where it is missing or damaged."""
    try:
        archive.top.download_file(file.name, target)
        problem = None if compute_file_sha256(target) == file.sha256 else "damaged"
    except FileNotFoundError:
        problem = "missing"
    if problem is not None:
        raise BackupError(
            f"the backup in {archive} cannot be restored: {file.name}, its database, is {problem}; "
            "give another backup with --backup"
        )


def _iter_damaged_networks(archive: BackupStore, manifest: BackupManifest) -> Iterator[tuple[str, str]]:
    """The name of each network that is missing or damaged, and which of the two it is."""
    for file in manifest.checkpoints:
        try:
            content = archive.files.read(file.name)
        except FileNotFoundError:
            yield file.name, "missing"
        else:
            if hashlib.sha256(content).hexdigest() != file.sha256:
                yield file.name, "damaged"


def _mark_networks_as_absent(manifest: BackupManifest, damaged: Collection[str]) -> BackupManifest:
    """The manifest as if these networks had been absent when the backup was created."""
    intact = tuple(file for file in manifest.checkpoints if file.name not in damaged)
    return manifest.model_copy(update={"checkpoints": intact, "absent": (*manifest.absent, *damaged)})


def _reset_running_and_count_waiting_studies(database: Database) -> int:
    """End every attempt and lease of a copied database, and open the trials again.

    A study with an owner returns to the queue, a study without an owner is interrupted. A requested pause or
    cancellation is carried out.

    Returns:
        The number of studies that were running and wait now, in the queue or for their command.
    """
    attempts = AttemptRepository(database)
    with database.write_session() as session:
        session.execute(delete(WorkerRow))
        complete = update(StudyRow).where(StudyRow.state == StudyState.COMPLETE)
        session.execute(complete.values(runner=None, runner_until=None))
        query = select(TrialRow.study_id).join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        for study_id in session.scalars(query.where(AttemptRow.state == AttemptState.RUNNING).distinct()).all():
            attempts.end_attempts_and_reopen_trials(session, study_id)
        waiting = 0
        for study in session.scalars(select(StudyRow).where(StudyRow.state == StudyState.RUNNING)).all():
            append_event(session, study.id, database.now(session), "study_restored", {})
            state = state_after_release(study)
            study.runner = study.runner_until = study.request = None
            set_study_state(session, study, state, database.now(session))
            waiting += state in (StudyState.ACCEPTED, StudyState.INTERRUPTED)
        return waiting


def check_and_count_replaced_studies(database: Database, *, overwrite: bool) -> int:
    """Return the number of studies that a restore replaces.

    Raises BackupError, which names every reason: workers are alive, or the database has studies, unless `overwrite`.
    """
    present = find_database_schema_revision(database.engine)
    if present is None:
        return 0
    if present not in known_schema_revisions():
        create_or_upgrade_tables(database.engine)  # raises an error that names the newer version
    with database.read_session() as session:
        studies = session.scalar(select(func.count()).select_from(StudyRow)) or 0
    workers = len(WorkerRepository(database).list_live_workers()) if present == newest_known_schema_revision() else 0
    problems = []
    if workers:
        problems.append(
            f"{format_count_with_noun(workers, 'worker', 'workers')} of the database {database} sent a heartbeat "
            "within the last 30 s: stop service and workers, wait 30 s if workers were killed, then restore"
        )
    if studies and not overwrite:
        problems.append(
            f"the database {database} has {format_count_with_noun(studies, 'study', 'studies')}: "
            "--overwrite replaces them by those of the backup"
        )
    if problems:
        raise BackupError("; ".join(problems))
    return studies


def restore_backup(
    backup: VerifiedBackup,
    database: Database,
    checkpoints: CheckpointStore,
    on_progress: OnProgress,
    *,
    overwrite: bool,
) -> int:
    """Restore a backup: first all files, then the database in one transaction.

    Args:
        backup: Backup to restore.
        database: Database whose rows are replaced.
        checkpoints: Store that the files are written to.
        on_progress: Called with a line for every network that the backup lacks.
        overwrite: Whether studies of the database may be lost.

    Returns:
        The number of checkpoints that were written; the others were in the store before.

    Raises:
        BackupError: the database is in use or has studies, or the archive overlaps the checkpoint store.
    """
    check_and_count_replaced_studies(database, overwrite=overwrite)
    if backup.archive.overlaps_checkpoint_store(checkpoints):
        raise BackupError(f"the archive {backup.archive} overlaps the checkpoint store: give another checkpoint store")
    create_or_upgrade_tables(database.engine)
    write_ownership_marker(checkpoints, database.engine.url)
    written = _write_and_count_files(backup, checkpoints)
    source = make_engine(make_sqlite_url(backup.database))
    try:
        with consistent_read_connection(source) as old, schema_transaction(database.engine) as new:
            values, present = read_last_assigned_ids(old), read_last_assigned_ids(new)
            values = {name: max(last, present.get(name, 0)) for name, last in values.items()}
            values["attempt"] += _ATTEMPT_GAP
            delete_all_rows(new)
            copy_and_count_all_rows(old, new)
            set_last_assigned_ids(new, values)
    finally:
        source.dispose()
    relink_store(database, checkpoints)
    _rewrite_files_removed_meanwhile(backup, checkpoints)
    _report_absent_files(backup, database, checkpoints, on_progress)
    return written


def _write_and_count_files(backup: VerifiedBackup, checkpoints: CheckpointStore) -> int:
    missing = [file for file in backup.manifest.checkpoints if not _has_intact_file(checkpoints, file)]
    for file in missing:
        checkpoints.write(file.name, backup.archive.files.read(file.name))
    return len(missing)


def _rewrite_files_removed_meanwhile(backup: VerifiedBackup, checkpoints: CheckpointStore) -> None:
    """Write files again that a garbage collection has removed meanwhile, because no row named them yet."""
    stored = {file.name for file in checkpoints.iter_files()}
    for file in backup.manifest.checkpoints:
        if file.name not in stored:
            checkpoints.write(file.name, backup.archive.files.read(file.name))


def _report_absent_files(
    backup: VerifiedBackup, database: Database, checkpoints: CheckpointStore, on_progress: OnProgress
) -> None:
    """Say what becomes of the trials whose networks are neither in the backup nor in the store."""
    absent = [name for name in backup.manifest.absent if not checkpoints.has_file(name)]
    with database.read_session() as session:
        for name in absent:
            has_ended = {*list_trial_states_of_file(session, name)} <= {*ENDED}
            end = "keeps its results, without a network" if has_ended else "is trained again when its study resumes"
            on_progress(f"{name} is not in the backup: its trial {end}")


def _has_intact_file(checkpoints: CheckpointStore, file: BackedUpFile) -> bool:
    stored = checkpoints.find_file_info(file.name)
    if stored is None or stored.size != file.size:
        return False
    return hashlib.sha256(checkpoints.read(file.name)).hexdigest() == file.sha256
