"""A backup made while service and workers go on."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import BackupError, BlnSearchError
from bln_search.core.version import VERSION
from bln_search.storage.backups.archive import Archive, moment_of
from bln_search.storage.backups.manifest import FORMAT, BackedFile, Manifest
from bln_search.storage.backups.rows import copy_rows, go_on_after, last_numbers
from bln_search.storage.engine import make_engine, reading, rebuilding, snapshot
from bln_search.storage.files import needed_files
from bln_search.storage.migration import migrate, newest_revision, present_revision

Say = Callable[[str], None]
_LEFT = timedelta(days=1)
"""No backup takes so long."""


@dataclass(frozen=True)
class Made:
    """A backup just made; of its checkpoints so many were copied now, the others lay there already.

    newly_absent: checkpoints that it misses, that are needed to this day, and that the backup before in the same place
    did not miss.
    """

    moment: str
    manifest: Manifest
    copied: int
    newly_absent: frozenset[str]


def make_backup(
    engine: Engine, checkpoints: CheckpointStore, archive: Archive, scratch: Path, now: datetime, say: Say
) -> Made:
    """Copy the database as it is at one moment, then every checkpoint that it names there.

    scratch: a folder with room for the database once more. say: told of every file that is gone.
    Raises BackupError where the database is not of this version, or the archive lies among the checkpoints.
    """
    _check(engine, checkpoints, archive)
    missed = _missed_before(archive)
    moment = moment_of(now)
    name = f"ledger-{moment}.sqlite3"
    _clear(_made(scratch), now)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".backup-") as folder:
        copy = Path(folder) / name
        rows, needed = copy_database(engine, copy)
        database = BackedFile(name=name, size=copy.stat().st_size, sha256=sha256_of(copy))
        try:
            archive.top.take(name, copy)
            files, absent, copied = _copy_files(needed, checkpoints, archive.files, say)
            lost = _lost(engine, absent)
            _tell(absent, lost, checkpoints, say)
            manifest = Manifest(
                format=FORMAT,
                bln_search=VERSION,
                schema_revision=newest_revision(),
                made_at=now,
                source=engine.dialect.name,
                database=database,
                rows=rows,
                checkpoints=tuple(files),
                absent=tuple(absent),
            )
            archive.top.write(f"backup-{moment}.json", (manifest.model_dump_json(indent=1) + "\n").encode())
        except BaseException:
            with suppress(OSError, BlnSearchError):  # the first error is the one to report
                archive.top.delete(f"backup-{moment}.json")  # it may be there all the same
                archive.top.delete(name)
            raise
    return Made(moment, manifest, copied, lost - missed)


def _missed_before(archive: Archive) -> frozenset[str]:
    """What the newest backup misses; where there is none, or none that can be read, nothing."""
    try:
        return frozenset(archive.manifest().absent)
    except BackupError:
        return frozenset()


def _check(engine: Engine, checkpoints: CheckpointStore, archive: Archive) -> None:
    present = present_revision(engine)
    if present != newest_revision():
        place = engine.url.render_as_string(hide_password=True)
        known = f"has the schema revision {present}" if present else "holds no tables of bln-search"
        raise BackupError(
            f"the database {place} {known}, and this version writes {newest_revision()}: make the backup with the "
            "version that wrote it, or run `bln-search db upgrade` first"
        )
    if archive.overlaps(checkpoints):
        raise BackupError(f"{archive} holds the very checkpoints that are to be copied: give another place")


def copy_database(engine: Engine, file: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Write every row, as they are at one moment, into a new SQLite file.

    Returns how many, by table, and the checkpoints that they need, name and SHA-256.
    """
    copy = make_engine(f"sqlite:///{file}")
    try:
        migrate(copy)
        with snapshot(engine) as source, rebuilding(copy) as target:
            rows = copy_rows(source, target)
            go_on_after(target, last_numbers(source))
            needed = needed_files(target)
        with copy.connect() as connection:
            connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it in one file
    finally:
        copy.dispose()
    return rows, needed


def _copy_files(
    needed: Mapping[str, str], checkpoints: CheckpointStore, target: CheckpointStore, say: Say
) -> tuple[list[BackedFile], list[str], int]:
    """Those that are there by name and size are not copied again; what is in them is checked when they are restored.

    One that is gone or damaged where networks are kept is taken for what the archive has of it, if that is sound.
    """
    sizes = {one.name: one.size for one in checkpoints.files()}
    there = {one.name: one.size for one in target.files()}
    files, absent, copied = [], [], 0
    for name, sha256 in sorted(needed.items()):
        size = sizes.get(name)
        if size is None or there.get(name) != size:
            content = _content(checkpoints, name, sha256)
            if content is None and name in there and (content := _content(target, name, sha256)) is not None:
                say(f"{checkpoints}/{name} is gone or damaged; the copy that an earlier backup made is kept")
            elif content is None:
                absent.append(name)
                continue
            else:
                target.write(name, content)
                copied += 1
            size = len(content)
        files.append(BackedFile(name=name, size=size, sha256=sha256))
    return files, absent, copied


def _lost(engine: Engine, absent: Sequence[str]) -> frozenset[str]:
    """Those of them that a study needs now; one that was deleted or freed meanwhile took its files along."""
    if not absent:
        return frozenset()
    with reading(engine) as session:
        return frozenset(absent) & needed_files(session).keys()


def _tell(absent: Sequence[str], lost: Collection[str], checkpoints: CheckpointStore, say: Say) -> None:
    for name in absent:
        if name in lost:
            say(f"{checkpoints}/{name} is gone or damaged: it is not in this backup")
        else:
            say(f"{checkpoints}/{name} was given up while the backup was made: it is not in it")


def _content(store: CheckpointStore, name: str, sha256: str) -> bytes | None:
    """What the file holds; None where it is gone or damaged."""
    try:
        content = store.read(name)
    except FileNotFoundError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def sha256_of(file: Path) -> str:
    """Of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _clear(scratch: Path, now: datetime) -> None:
    """Remove the copies of the database that killed commands left."""
    for left in (*scratch.glob(".backup-*"), *scratch.glob(".restore-*")):
        with suppress(OSError):
            if left.is_dir() and left.stat().st_mtime < (now - _LEFT).timestamp():
                shutil.rmtree(left)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
