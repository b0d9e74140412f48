"""Readiness of the service: a database of this version, its checkpoint store, and at least one worker."""

from __future__ import annotations

import logging

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import BlnSearchError, CheckpointStoreError, WrongCheckpointStoreError
from bln_search.storage.ledger import Ledger
from bln_search.storage.migration import describe_unknown_revision, known_schema_revisions, newest_known_schema_revision
from service.caching.ttl_cache import ExpiringCachedValue
from service.schemas.operations import Readiness

_log = logging.getLogger(__name__)
_TTL = 1.0
"""Seconds. The endpoint needs no token, so the database must not be read for every request."""

_MAX_STALE = 5.0


def make_readiness_cache(ledger: Ledger, checkpoints: CheckpointStore) -> ExpiringCachedValue[Readiness]:
    """Return a cache that reads the database at most once a second; its value is None while the database hangs."""
    identity = ledger.database.find_file_identity()
    return ExpiringCachedValue(lambda: _read_readiness(ledger, checkpoints, identity), _TTL, max_stale=_MAX_STALE)


def _read_readiness(ledger: Ledger, checkpoints: CheckpointStore, identity: tuple[int, int] | None) -> Readiness:
    """Return the readiness. Its detail names the first obstacle, without addresses, because it needs no token.

    Args:
        ledger: The ledger.
        checkpoints: The checkpoint store.
        identity: The database file at the start of the service. Open connections still use it after it was moved.
    """
    revision, workers = None, 0
    try:
        revision = ledger.find_schema_revision()
        obstacle = _find_schema_obstacle(revision) or _find_file_obstacle(ledger, identity)
        if obstacle is None:
            workers = len(ledger.workers.list_live_workers())
            obstacle = _find_store_obstacle(ledger, checkpoints)
    except BlnSearchError as error:
        _log.warning("not ready: %s", error)
        revision, obstacle = None, "the database cannot be reached or read; the log of the service has the reason"
    if obstacle is None and not workers:
        obstacle = "no worker has sent a heartbeat within 30 s"
    return Readiness(ready=obstacle is None, schema_revision=revision, workers=workers, detail=obstacle or "ready")


def _find_schema_obstacle(revision: str | None) -> str | None:
    """Return why this version cannot use a schema; None if it can."""
    newest = newest_known_schema_revision()
    if revision == newest:
        return None
    if revision is None:
        return "the database has no tables of bln-search: `bln-search db upgrade` creates them"
    if revision in known_schema_revisions():
        return f"the schema {revision} of the database is older than {newest}: `bln-search db upgrade` upgrades it"
    return f"the database has {describe_unknown_revision(revision)}"


def _find_file_obstacle(ledger: Ledger, identity: tuple[int, int] | None) -> str | None:
    """Return that the file of the database was moved, deleted or replaced; None if it was not."""
    if ledger.database.find_file_identity() == identity:
        return None
    _log.warning("not ready: the file of the database %s was moved, deleted or replaced while the service ran", ledger)
    return (
        "the file of the database was moved, deleted or replaced while the service ran: stop service and workers, put "
        "the file back, and start them again"
    )


def _find_store_obstacle(ledger: Ledger, checkpoints: CheckpointStore) -> str | None:
    """Return why the checkpoint store cannot be used; None if it can."""
    try:
        ledger.checkpoints.check_store(checkpoints)
    except CheckpointStoreError as error:
        _log.warning("not ready: %s", error)
        is_wrong = isinstance(error, WrongCheckpointStoreError)
        problem = "is not mounted, or not that of the database" if is_wrong else "is missing or cannot be read"
        return f"the checkpoint store {problem}; the log of the service has the reason"
    return None
