"""New SQLite ledgers as copies of one that was migrated once in this process, written without waiting for the disk."""

from __future__ import annotations

import atexit
import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from uuid import uuid4

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.util import LRUCache

from bln_search.storage import ledger
from bln_search.storage.backups import create
from bln_search.storage.engine import make_engine
from bln_search.storage.migration import create_or_upgrade_tables

_copying = Lock()


@cache
def migrated_file() -> Path:
    """A SQLite file with the tables of this version and no rows; made once in a process."""
    folder = Path(mkdtemp(prefix="bln-search-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "migrated.sqlite3"
    engine = make_engine(f"sqlite:///{path}")
    create_or_upgrade_tables(engine)
    engine.dispose()  # the last connection moves the write-ahead log into the file
    return path


def migrate_by_copy(engine: Engine) -> None:
    """`create_or_upgrade_tables`, which finds a copy of the migrated file where there was no file.

    Alembic needs about 0.1 s for a new file and a copy a hundredth of that. The function
    itself is called nevertheless.
    """
    name = engine.url.database
    if engine.dialect.name == "sqlite" and name and name != ":memory:" and not name.startswith("file:"):
        copy_to(Path(name))
        event.listen(engine, "connect", do_not_sync)
        share_statements(engine)
    create_or_upgrade_tables(engine)


@cache
def shared():
    """The dialect of all SQLite ledgers of this process, and the statements compiled for it."""
    engine = create_engine("sqlite://")
    engine.connect().close()  # the dialect asks the library what it can do
    engine.dispose()
    return engine.dialect, LRUCache(5_000)


def share_statements(engine):
    """Compile each statement once in a process, and not again for the ledger of every test."""
    dialect, statements = shared()
    engine.dialect = engine.pool._dialect = dialect
    engine._compiled_cache = statements


def do_not_sync(connection, _record):
    """The ledger of a test does not outlive a power cut; each commit would wait for the disk."""
    connection.execute("PRAGMA synchronous=OFF")


def copy_to(path: Path) -> None:
    """Put a copy at `path`, completely or not at all; leave a file with tables, and a folder that takes none.

    An engine for SQLite makes an empty file that is private; the copy takes its permissions.
    """
    part = path.with_name(f".{uuid4().hex}")
    with _copying:
        try:
            if not path.exists():
                shutil.copyfile(migrated_file(), part)
                os.link(part, path)
            elif path.is_file() and not path.stat().st_size:
                shutil.copyfile(migrated_file(), part)
                shutil.copymode(path, part)
                part.replace(path)
        except OSError:
            pass
        finally:
            part.unlink(missing_ok=True)


def use_copies(monkeypatch) -> None:
    """Have `open_and_upgrade_ledger` and backups copy."""
    for module in (ledger, create):
        monkeypatch.setattr(module, "create_or_upgrade_tables", migrate_by_copy)
