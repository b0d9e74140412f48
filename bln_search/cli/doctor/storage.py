"""Checks of what is stored: the database and its clock, folders, data sets, the checkpoint store."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import false, update

from bln_search.cli.doctor.finding import Finding, fault, ok, skipped
from bln_search.cli.maintenance.data import count_missing_and_all_files
from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import BlnSearchError, LedgerError, WrongCheckpointStoreError
from bln_search.core.files.disk import find_disk_space_problem, measure_disk_usage
from bln_search.core.names import format_count_with_noun
from bln_search.settings import Settings, find_missing_sqlite_file, find_sqlite_file
from bln_search.storage.ledger import Ledger, open_ledger_without_schema_check
from bln_search.storage.migration import describe_unknown_revision, known_schema_revisions, newest_known_schema_revision
from bln_search.storage.tables import StudyRow

T = TypeVar("T")

MAX_CLOCK_SKEW = 5.0
"""Largest accepted difference in seconds between the clocks of this machine and of the database."""

_ACCESSIBLE = "give this user read and write access to the file and its folder, or set BLN_SEARCH_HOME"
_REACHABLE = "check that the server runs, and host, port, user and password of BLN_SEARCH_DATABASE"


def iter_database_findings(settings: Settings, url: str | None) -> Iterator[Finding]:
    """Check that the database is reachable, has a schema that this version knows, and can be written.

    Args:
        settings: Used without `url`.
        url: Database URL.
    """
    try:
        database = settings.checked_database_url(url)
        if (missing := find_missing_sqlite_file(database)) is not None:
            yield ok("database", f"{missing} does not exist yet; `bln-search run` or `serve` creates it")
            yield from _check_clock_of_this_machine()
            return
        ledger = open_ledger_without_schema_check(database)
    except BlnSearchError as error:
        yield fault("database", str(error), "correct BLN_SEARCH_DATABASE or --database")
        return
    with closing(ledger):
        try:
            revision = ledger.find_schema_revision()
        except BlnSearchError as error:
            yield fault("database", str(error), _ACCESSIBLE if find_sqlite_file(database) else _REACHABLE)
            return
        yield _check_schema(ledger, revision)
        if revision == newest_known_schema_revision():
            yield _check_write_access(ledger)
        yield from iter_clock_findings(ledger)


def _check_schema(ledger: Ledger, revision: str | None) -> Finding:
    newest = newest_known_schema_revision()
    if revision is None:
        return ok("database", f"{ledger} is empty; the first command creates its tables")
    if revision == newest:
        return ok("database", f"{ledger}, schema revision {revision}")
    if revision in known_schema_revisions():
        detail = f"{ledger} has the schema revision {revision}, this version writes {newest}"
        return fault("database", detail, "make a backup, then run `bln-search db upgrade`")
    detail, _, remedy = f"{ledger} has {describe_unknown_revision(revision)}".partition("; ")
    return fault("database", detail, f"{remedy}, or give another database with --database")


def _check_write_access(ledger: Ledger) -> Finding:
    """Check with a statement that changes no row."""
    try:
        with ledger.database.write_session() as session:
            session.execute(update(StudyRow).where(false()).values(title=""))
    except BlnSearchError as error:
        return fault("database writes", str(error), "give the user of the database, or of its file, write access")
    return ok("database writes", "a transaction that writes succeeds")


def iter_clock_findings(ledger: Ledger, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Iterator[Finding]:
    """Compare the clock of this machine with that of the database, by which leases expire.

    Args:
        ledger: Ledger in the database.
        now: The clock of this machine.
    """
    yield from _check_clock_of_this_machine()
    before = now()
    skew = (ledger.now() - before).total_seconds()
    if skew < -MAX_CLOCK_SKEW or skew > MAX_CLOCK_SKEW + (now() - before).total_seconds():
        detail = f"the database is {abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
        yield fault("clock skew", detail, "synchronize both clocks, for example with chrony or systemd-timesyncd")
    elif ledger.database.engine.dialect.name == "sqlite":
        yield skipped("clock skew", "SQLite uses the clock of this machine")
    else:
        yield ok("clock skew", f"{abs(skew):.2f} s between this machine and the database")


def _check_clock_of_this_machine() -> Iterator[Finding]:
    """Check that the clock that measures durations never runs backwards."""
    values = [time.monotonic() for _ in range(1000)]
    if time.get_clock_info("monotonic").monotonic and values == sorted(values):
        yield ok("clock", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, monotonic")
    else:
        yield fault(
            "clock", "the monotonic clock of this machine runs backwards", "check the clock source of the kernel"
        )


_TEST_CONTENT = b"bln-search doctor"


def iter_disk_space_findings(settings: Settings) -> Iterator[Finding]:
    """Check the free space of the folders that results are written to."""
    problem = find_disk_space_problem(settings.output_folders, settings.free_bytes)
    if problem is not None:
        detail, _, remedy = problem.partition("; ")
        yield fault("disk space", detail, remedy)
        return
    free = min(measure_disk_usage(folder).free for folder in settings.output_folders)
    yield ok("disk space", f"{free / 1e9:,.1f} GB are free for checkpoints and results")


def iter_written_folder_findings(settings: Settings) -> Iterator[Finding]:
    """Check that files can be written to the home and to the cache, or to the folder in which they will be created."""
    folders = {"home": (settings.home, "BLN_SEARCH_HOME"), "cache": (settings.cache, "BLN_SEARCH_CACHE")}
    for name, (folder, variable) in folders.items():
        reason = find_write_problem(folder)
        if reason is None:
            yield ok(name, f"{folder}, writable")
        else:
            yield fault(name, f"{folder} is not writable: {reason}", f"give write access, or set {variable}")


def find_write_problem(folder: Path) -> str | None:
    """Why no file can be written to the folder, or to its nearest parent that exists; None if one can."""
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=parent, prefix=".doctor-") as file:
            file.write(_TEST_CONTENT)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def iter_data_set_findings(settings: Settings, data: Path | None) -> Iterator[Finding]:
    """Check that the folder of data sets can be read, and that no data set lacks some of its files.

    Args:
        settings: Used without `data`.
        data: Folder of data sets.
    """
    from bln_search.data.catalog import CATALOG

    folder = data or settings.data_folder
    if not folder.is_dir():
        if data is None and settings.data is None:
            yield skipped("data sets", f"{folder} does not exist; `bln-search data fetch NAME` creates it")
        else:
            yield fault("data sets", f"the folder {folder} does not exist", "create it, or correct BLN_SEARCH_DATA")
        return
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        yield fault("data sets", f"{folder} cannot be read: {error.strerror}", "give read access to its folders")
        return
    counts = {entry.name: count_missing_and_all_files(entry, folder) for entry in CATALOG.values()}
    present = [name for name, (missing, _) in counts.items() if not missing]
    yield ok("data sets", f"{folder}: {len(present)} of {len(counts)} present, {', '.join(present)}")
    for name, (missing, total) in counts.items():
        if 0 < missing < total:
            detail = f"{missing} of {total} files are missing in {folder}"
            yield fault(f"data set {name}", detail, f"run `bln-search data fetch {name}`")


def iter_checkpoint_store_findings(settings: Settings, url: str | None) -> Iterator[Finding]:
    """Check that the checkpoint store is that of the database, and takes, returns and deletes a file.

    A folder that is missing is not created.

    Args:
        settings: The settings.
        url: Database URL; by default that of the settings.
    """
    store = settings.checkpoint_store
    database = url or settings.database_url
    try:
        _use_database_of_this_version(database, lambda ledger: ledger.checkpoints.check_store(store))
        if isinstance(store, FolderStore) and not store.exists() and find_write_problem(store.path) is None:
            detail = f"{store} does not exist; the first run creates it. If trials ran with it, mount it"
            yield skipped("checkpoints", detail)
            return
        store.check_read_and_write_access()
        missing = _use_database_of_this_version(database, lambda ledger: ledger.checkpoints.count_missing_files(store))
    except WrongCheckpointStoreError as error:
        detail, _, remedy = str(error).partition("; ")
        yield fault("checkpoints", detail, remedy)
    except (BlnSearchError, OSError) as error:
        reason = f"{store}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        remedy = "correct BLN_SEARCH_CHECKPOINTS, or its credentials and access rights"
        yield fault("checkpoints", reason, remedy)
    else:
        yield ok("checkpoints", f"{store}: a file was written, read and deleted")
        if missing:
            detail = f"{store} lacks {format_count_with_noun(missing, 'network', 'networks')} of the database"
            remedy = "restore a backup that has them; without them the results stay, but their rows cannot be exported"
            yield fault("networks", detail, remedy)


def _use_database_of_this_version(url: str, use: Callable[[Ledger], T]) -> T | None:
    """Call a function with the ledger; None if the database cannot be used, which has other findings."""
    with suppress(LedgerError):
        if find_missing_sqlite_file(url) is None:
            with closing(open_ledger_without_schema_check(url)) as ledger:
                if ledger.find_schema_revision() == newest_known_schema_revision():
                    return use(ledger)
    return None
