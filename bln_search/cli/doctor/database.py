"""Checks of the database and of the clock by which its leases expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import false, update
from sqlalchemy.engine import make_url

from bln_search.cli.doctor.finding import Finding, fault, ok, skipped
from bln_search.core.errors import BlnSearchError
from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger, open_ledger_without_schema_check
from bln_search.storage.migration import describe_unknown_revision, known_schema_revisions, newest_known_schema_revision
from bln_search.storage.tables import StudyRow

MAX_CLOCK_SKEW = 5.0
"""Largest accepted difference in seconds between the clocks of this machine and of the database."""

_REACHABLE = "check that the server runs, and host, port, user and password of BLN_SEARCH_DATABASE"


def iter_database_findings(settings: Settings, url: str | None) -> Iterator[Finding]:
    """Check that the database is reachable, has a schema that this version knows, and can be written.

    Args:
        settings: Used without `url`.
        url: Database URL.
    """
    try:
        database = url or settings.database_url
        if (missing := _find_missing_sqlite_file(database)) is not None:
            yield ok("database", f"{missing} does not exist yet; the first command creates it")
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
            yield fault("database", str(error), _REACHABLE)
            return
        yield _check_schema(ledger, revision)
        if revision == newest_known_schema_revision():
            yield _check_write_access(ledger)
        yield from iter_clock_findings(ledger)


def _find_missing_sqlite_file(database: str) -> str | None:
    """The path of a SQLite database that does not exist; opening it would create it."""
    if not database.startswith("sqlite"):
        return None
    path = make_url(database).database
    return path if path and path != ":memory:" and not path.startswith("file:") and not Path(path).exists() else None


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
