"""Creates a backup while service and workers run."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import BackupError, BlnSearchError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.files.private import make_private_folder
from bln_search.core.sqlite import make_sqlite_url
from bln_search.core.version import VERSION
from bln_search.storage.backups.archive import FORMAT, BackedUpFile, BackupManifest, BackupStore, format_timestamp
from bln_search.storage.backups.copy_rows import copy_and_count_all_rows, read_last_assigned_ids, set_last_assigned_ids
from bln_search.storage.database import Database
from bln_search.storage.engine import consistent_read_connection, make_engine, schema_transaction
from bln_search.storage.migration import (
    create_or_upgrade_tables,
    find_database_schema_revision,
    newest_known_schema_revision,
)
from bln_search.storage.needed_files import read_digests_by_needed_file

OnProgress = Callable[[str], None]
_ABANDONED_AFTER = timedelta(days=1)
"""Age from which temporary folders are removed: no backup takes so long, so their processes were killed."""


@dataclass(frozen=True)
class BackupResult:
    """A backup that was just created.

    Attributes:
        moment: Time of the backup, as in the names of its files.
        manifest: Its manifest.
        copied: Number of checkpoints that were copied; the others were in the archive before.
        newly_absent: Checkpoints that are needed, but neither in the store nor in an earlier backup, of which the
            previous backup did not know this.
    """

    moment: str
    manifest: BackupManifest
    copied: int
    newly_absent: frozenset[str]


def create_backup(
    database: Database,
    checkpoints: CheckpointStore,
    archive: BackupStore,
    scratch: Path,
    now: datetime,
    on_progress: OnProgress,
) -> BackupResult:
    """Copy a consistent state of the database, then every checkpoint that it names.

    Args:
        database: Database to back up.
        checkpoints: Its checkpoint store.
        archive: Archive that the backup is written to.
        scratch: Folder with disk space for a copy of the database.
        now: The moment of the backup.
        on_progress: Called with a line for every missing or damaged file.

    Raises:
        BackupError: the database has another schema revision, or the archive overlaps the checkpoint store.
    """
    _check_locations(database, checkpoints, archive)
    absent_before = _list_files_absent_from_newest(archive)
    moment = format_timestamp(now)
    name = f"ledger-{moment}.sqlite3"
    make_private_folder(scratch)
    _remove_abandoned_copies(scratch, now)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".backup-") as folder:
        copy = Path(folder) / name
        rows, needed = _copy_database_to_sqlite_file(database, copy)
        file = BackedUpFile(name=name, size=copy.stat().st_size, sha256=compute_file_sha256(copy))
        try:
            archive.top.upload_file(name, copy)
            files, absent, copied = _copy_missing_files(needed, checkpoints, archive.files, on_progress)
            lost = _find_lost_files(database, absent)
            _report_absent_files(absent, lost, checkpoints, on_progress)
            manifest = BackupManifest(
                format=FORMAT,
                bln_search=VERSION,
                schema_revision=newest_known_schema_revision(),
                made_at=now,
                source=database.engine.dialect.name,
                database=file,
                rows=rows,
                checkpoints=tuple(files),
                absent=tuple(absent),
            )
            archive.top.write(f"backup-{moment}.json", (manifest.model_dump_json(indent=1) + "\n").encode())
        except BaseException:
            with suppress(OSError, BlnSearchError):  # the first error is the one to report
                archive.top.delete(f"backup-{moment}.json")  # writing it may have failed after it was stored
                archive.top.delete(name)
            raise
    return BackupResult(moment, manifest, copied, lost - absent_before)


def _list_files_absent_from_newest(archive: BackupStore) -> frozenset[str]:
    """The checkpoints that the newest readable backup lacks."""
    try:
        return frozenset(archive.read_manifest().absent)
    except BackupError:
        return frozenset()


def _check_locations(database: Database, checkpoints: CheckpointStore, archive: BackupStore) -> None:
    present = find_database_schema_revision(database.engine)
    if present != newest_known_schema_revision():
        state = f"has the schema revision {present}" if present else "has no tables of bln-search"
        raise BackupError(
            f"the database {database} {state}, and this version writes {newest_known_schema_revision()}: create the "
            "backup with the version that wrote it, or run `bln-search db upgrade` first"
        )
    if archive.overlaps_checkpoint_store(checkpoints):
        raise BackupError(f"the archive {archive} overlaps the checkpoint store: give another folder or URL")


def _copy_database_to_sqlite_file(database: Database, file: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Copy a consistent state of every row into a new SQLite file.

    Returns:
        The number of rows by table, and the SHA-256 of the needed checkpoints by name.
    """
    copy = make_engine(make_sqlite_url(file))
    try:
        create_or_upgrade_tables(copy)
        with consistent_read_connection(database.engine) as source, schema_transaction(copy) as target:
            rows = copy_and_count_all_rows(source, target)
            set_last_assigned_ids(target, read_last_assigned_ids(source))
            needed = read_digests_by_needed_file(target)
        with copy.connect() as connection:
            connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # move the write-ahead log into the file
    finally:
        copy.dispose()
    return rows, needed


def _copy_missing_files(
    needed: Mapping[str, str], checkpoints: CheckpointStore, target: CheckpointStore, on_progress: OnProgress
) -> tuple[list[BackedUpFile], list[str], int]:
    """Copy the files that the archive does not have by name and size; their content is verified at restoration.

    For a file that is missing or damaged in the store, an intact copy of the archive is kept.

    Returns:
        The files of the backup, the names of the files that it lacks, and the number of copied files.
    """
    sizes = {file.name: file.size for file in checkpoints.iter_files()}
    archived = {file.name: file.size for file in target.iter_files()}
    files, absent, copied = [], [], 0
    for name, sha256 in sorted(needed.items()):
        size = sizes.get(name)
        if size is None or archived.get(name) != size:
            content = _read_file_if_intact(checkpoints, name, sha256)
            if (
                content is None
                and name in archived
                and (content := _read_file_if_intact(target, name, sha256)) is not None
            ):
                on_progress(f"{checkpoints}/{name} is missing or damaged; the copy of an earlier backup is kept")
            elif content is None:
                absent.append(name)
                continue
            else:
                target.write(name, content)
                copied += 1
            size = len(content)
        files.append(BackedUpFile(name=name, size=size, sha256=sha256))
    return files, absent, copied


def _find_lost_files(database: Database, absent: Sequence[str]) -> frozenset[str]:
    """The absent files that a study still needs, because studies may have been deleted or freed meanwhile."""
    if not absent:
        return frozenset()
    with database.read_session() as session:
        return frozenset(absent) & read_digests_by_needed_file(session).keys()


def _report_absent_files(
    absent: Sequence[str], lost: Collection[str], checkpoints: CheckpointStore, on_progress: OnProgress
) -> None:
    for name in absent:
        if name in lost:
            on_progress(f"{checkpoints}/{name} is missing or damaged: this backup lacks it")
        else:
            on_progress(f"{checkpoints}/{name} is needed by no study any more: this backup lacks it")


def _read_file_if_intact(store: CheckpointStore, name: str, sha256: str) -> bytes | None:
    """The content of a file; None where it is missing or damaged."""
    try:
        content = store.read(name)
    except FileNotFoundError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def _remove_abandoned_copies(scratch: Path, now: datetime) -> None:
    """Remove temporary copies of databases that killed commands left behind."""
    for folder in (*scratch.glob(".backup-*"), *scratch.glob(".restore-*")):
        with suppress(OSError):
            if folder.is_dir() and folder.stat().st_mtime < (now - _ABANDONED_AFTER).timestamp():
                shutil.rmtree(folder)
