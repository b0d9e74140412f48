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
    return ExpiringCachedValue(lambda: _read_readiness(ledger, checkpoints), _TTL, max_stale=_MAX_STALE)


def _read_readiness(ledger: Ledger, checkpoints: CheckpointStore) -> Readiness:
    """Return the readiness. Its detail names the first obstacle, without addresses, because it needs no token."""
    revision, workers = None, 0
    try:
        revision = ledger.find_schema_revision()
        obstacle = _find_schema_obstacle(revision)
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
