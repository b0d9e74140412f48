"""Readiness of the service: migrated database and at least one worker."""

from __future__ import annotations

from bln_search.core.errors import BlnSearchError
from bln_search.storage.ledger import Ledger
from bln_search.storage.migration import newest_revision
from service.caching.ttl_cache import TtlCache
from service.schemas.operations import Readiness

_TTL = 1.0
"""Seconds. The endpoint needs no token, so the database must not be read for every request."""

_MAX_STALE = 5.0


def readiness_cache(ledger: Ledger) -> TtlCache[Readiness]:
    """Return a cache that reads the database at most once a second; its value is None while the database hangs."""
    return TtlCache(lambda: _read_readiness(ledger), _TTL, max_stale=_MAX_STALE)


def _read_readiness(ledger: Ledger) -> Readiness:
    try:
        present = ledger.find_schema_revision()
        workers = len(ledger.workers.list_live())
    except BlnSearchError:
        present, workers = None, 0
    migrated = present == newest_revision()
    ready = migrated and workers > 0
    missing = "no worker has sent a heartbeat within 30 s" if migrated else "the database lacks the current schema"
    return Readiness(ready=ready, schema_revision=present, workers=workers, detail="ready" if ready else missing)
