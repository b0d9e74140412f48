"""Readiness of the service: migrated database and at least one worker."""

from __future__ import annotations

from bln_search.core.errors import BlnSearchError
from bln_search.storage.ledger import Ledger
from bln_search.storage.migration import newest_known_schema_revision
from service.caching.ttl_cache import ExpiringCachedValue
from service.schemas.operations import Readiness

_TTL = 1.0
"""Seconds. The endpoint needs no token, so the database must not be read for every request."""

_MAX_STALE = 5.0


def make_readiness_cache(ledger: Ledger) -> ExpiringCachedValue[Readiness]:
    """Return a cache that reads the database at most once a second; its value is None while the database hangs."""
    return ExpiringCachedValue(lambda: _read_readiness(ledger), _TTL, max_stale=_MAX_STALE)


def _read_readiness(ledger: Ledger) -> Readiness:
    try:
        revision = ledger.find_schema_revision()
        workers = len(ledger.workers.list_live_workers())
    except BlnSearchError:
        revision, workers = None, 0
    is_migrated = revision == newest_known_schema_revision()
    is_ready = is_migrated and workers > 0
    obstacle = "no worker has sent a heartbeat within 30 s" if is_migrated else "the database lacks the current schema"
    return Readiness(
        ready=is_ready, schema_revision=revision, workers=workers, detail="ready" if is_ready else obstacle
    )
