"""Whether studies can be taken and run."""

from __future__ import annotations

from sqlalchemy import Engine

from bln_search.core.errors import BlnSearchError
from bln_search.storage.browse import workers_seen
from bln_search.storage.clock import DatabaseClock
from bln_search.storage.migration import newest_revision, present_revision
from service.schemas import Readiness
from service.ttl_cache import Cached

_FRESH = 1.0
"""Seconds for which an answer is given out again: anybody may ask, without a token."""

_LONGEST = 5.0


def cached_readiness(engine: Engine) -> Cached[Readiness]:
    """Looked up at most once a second; None where the database has not answered for a while."""
    return Cached(lambda: _look_up(engine), _FRESH, longest=_LONGEST)


def _look_up(engine: Engine) -> Readiness:
    try:
        present = present_revision(engine)
        workers = len(workers_seen(engine, DatabaseClock(engine)()))
    except BlnSearchError:
        present, workers = None, 0
    migrated = present == newest_revision()
    ready = migrated and workers > 0
    missing = "no worker was seen in the last half minute" if migrated else "the database is not there as it should be"
    return Readiness(ready=ready, schema_revision=present, workers=workers, detail="ready" if ready else missing)
