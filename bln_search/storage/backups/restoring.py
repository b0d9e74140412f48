"""A backup put back: looked through first, then its files, then its database in one transaction."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine, func, select

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import BackupError
from bln_search.storage.backups.archive import Archive
from bln_search.storage.backups.making import Say, sha256_of
from bln_search.storage.backups.manifest import BackedFile, Manifest
from bln_search.storage.backups.rows import copy_rows, delete_rows, go_on_after, last_numbers
from bln_search.storage.backups.stillness import still
from bln_search.storage.belonging import mark
from bln_search.storage.browse import workers_seen
from bln_search.storage.engine import make_engine, reading, rebuilding, snapshot
from bln_search.storage.ledger import Ledger
from bln_search.storage.migration import migrate, newest_revision, present_revision, revisions
from bln_search.storage.tables import StudyRow

_AFTER_ATTEMPTS = 1_000_000
"""Numbers of attempts are fencing tokens: after a restoration they go on so far behind the last one of the backup, that
no report of a worker from before it meets an attempt that was started since."""


@dataclass(frozen=True)
class Verified:
    """A backup of which every file is what it was, but for networks of its manifest that are said to be absent.

    database: its own, of this version, nothing running in it.
    """

    archive: Archive
    manifest: Manifest
    database: Path
    running: int


@contextmanager
def verified(
    archive: Archive, manifest: Manifest, scratch: Path, say: Say, *, without_damaged: bool = False
) -> Iterator[Verified]:
    """Read every file of a backup. Its database is fetched, and brought to the tables of this version, in `scratch`.

    say: told of every network that is damaged or gone. without_damaged: these are absent then, as if they had been when
    the backup was made; otherwise they raise BackupError. So do a damaged database and a backup of a newer version.
    """
    if manifest.schema_revision not in revisions():
        raise BackupError(
            f"the backup in {archive} has the schema revision {manifest.schema_revision}, which this version of "
            f"bln-search does not know: it was made by version {manifest.bln_search}; upgrade bln-search"
        )
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".restore-") as folder:
        database = Path(folder) / "ledger.sqlite3"
        _fetch(archive, manifest.database, database)
        damaged = dict(_damaged(archive, manifest))
        for name, problem in damaged.items():
            say(f"{archive}/checkpoints/{name} is {problem}")
        if damaged and not without_damaged:
            raise BackupError(
                f"the backup in {archive} cannot be restored as it was: {len(damaged)} of its "
                f"{len(manifest.checkpoints)} networks are damaged or gone; --without-damaged restores everything else"
            )
        engine = make_engine(f"sqlite:///{database}")
        try:
            migrate(engine)
            running = still(Ledger(engine))
        finally:
            engine.dispose()
        yield Verified(archive, _without(manifest, damaged), database, running)


def _fetch(archive: Archive, file: BackedFile, target: Path) -> None:
    """The database of a backup. Raises BackupError where it is not what it was."""
    try:
        archive.top.give(file.name, target)
        problem = None if sha256_of(target) == file.sha256 else "damaged"
    except FileNotFoundError:
        problem = "gone"
    if problem is not None:
        raise BackupError(
            f"the backup in {archive} cannot be restored: {file.name}, its database, is {problem}; "
            "give another one with --backup"
        )


def _damaged(archive: Archive, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Networks of the backup that are not what they were, and what is the matter."""
    for file in manifest.checkpoints:
        try:
            content = archive.files.read(file.name)
        except FileNotFoundError:
            yield file.name, "gone"
        else:
            if hashlib.sha256(content).hexdigest() != file.sha256:
                yield file.name, "damaged"


def _without(manifest: Manifest, damaged: Collection[str]) -> Manifest:
    """The same backup, as if these networks had been gone when it was made."""
    sound = tuple(one for one in manifest.checkpoints if one.name not in damaged)
    return manifest.model_copy(update={"checkpoints": sound, "absent": (*manifest.absent, *damaged)})


def check_target(engine: Engine, now: datetime, *, overwrite: bool) -> None:
    """Raise BackupError where the database has studies, unless they may be lost, or where workers are there."""
    present = present_revision(engine)
    if present is None:
        return
    if present not in revisions():
        migrate(engine)  # says that it is of a newer version
    place = engine.url.render_as_string(hide_password=True)
    with reading(engine) as session:
        studies = session.scalar(select(func.count()).select_from(StudyRow)) or 0
    if studies and not overwrite:
        raise BackupError(f"the database {place} has {studies} studies: with --overwrite the backup takes their place")
    workers = len(workers_seen(engine, now)) if present == newest_revision() else 0
    if workers:
        raise BackupError(
            f"{workers} workers of the database {place} were heard of in the last half minute: stop service and "
            "workers, wait so long where they were killed, and restore then"
        )


def restore(backup: Verified, engine: Engine, checkpoints: CheckpointStore, say: Say, *, overwrite: bool) -> int:
    """Put a backup back; returns how many checkpoints were written, the others lay there already.

    The database becomes what it was in one transaction, after all files are there: until then it is as it was.
    Raises BackupError, and what the places raise where they are in the way.
    """
    check_target(engine, Ledger(engine).clock(), overwrite=overwrite)
    if backup.archive.overlaps(checkpoints):
        raise BackupError(f"{backup.archive} holds the very checkpoints that would be written: give another place")
    migrate(engine)
    mark(checkpoints, engine)
    written = _write_files(backup, checkpoints)
    source = make_engine(f"sqlite:///{backup.database}")
    try:
        with snapshot(source) as old, rebuilding(engine) as new:
            numbers = _numbers(last_numbers(old), last_numbers(new))
            delete_rows(new)
            copy_rows(old, new)
            go_on_after(new, numbers)
    finally:
        source.dispose()
    _look_again(backup, checkpoints, say)
    return written


def _numbers(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    found = {name: max(last, new.get(name, 0)) for name, last in old.items()}
    return {**found, "attempt": found["attempt"] + _AFTER_ATTEMPTS}


def _write_files(backup: Verified, checkpoints: CheckpointStore) -> int:
    missing = [file for file in backup.manifest.checkpoints if not _is_there(checkpoints, file)]
    for file in missing:
        checkpoints.write(file.name, backup.archive.files.read(file.name))
    return len(missing)


def _look_again(backup: Verified, checkpoints: CheckpointStore, say: Say) -> None:
    """Until now no row named the files: whoever cleaned meanwhile may have taken some for left over."""
    there = {one.name for one in checkpoints.files()}
    for file in backup.manifest.checkpoints:
        if file.name not in there:
            checkpoints.write(file.name, backup.archive.files.read(file.name))
    for name in backup.manifest.absent:
        if name not in there:
            say(f"{name} is not in the backup: a trial that is not finished is trained again")


def _is_there(checkpoints: CheckpointStore, file: BackedFile) -> bool:
    found = checkpoints.find(file.name)
    if found is None or found.size != file.size:
        return False
    return hashlib.sha256(checkpoints.read(file.name)).hexdigest() == file.sha256
