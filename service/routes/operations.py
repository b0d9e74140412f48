"""What those who run the service look at. Without a token: nothing here tells of anybody's studies."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from bln_search.core.errors import BlnSearchError
from bln_search.core.version import VERSION
from bln_search.storage.browse import workers_seen
from bln_search.storage.migration import newest_revision, present_revision
from service.context import Here
from service.schemas import Health, Readiness, Version

router = APIRouter(tags=["operation"])


@router.get("/healthz", operation_id="get_health")
async def healthz() -> Health:
    """This process answers."""
    return Health()


@router.get("/readyz", operation_id="get_readiness", responses={503: {"model": Readiness}})
def readyz(context: Here, response: Response) -> Readiness:
    """Whether the database is there with the tables of this version, and a worker takes studies."""
    try:
        present = present_revision(context.engine)
        workers = len(workers_seen(context.engine, datetime.now(UTC)))
    except BlnSearchError:
        present, workers = None, 0
    migrated = present == newest_revision()
    ready = migrated and workers > 0
    if not ready:
        response.status_code = 503
    missing = "no worker was seen in the last half minute" if migrated else "the database is not there as it should be"
    return Readiness(ready=ready, schema_revision=present, workers=workers, detail="ready" if ready else missing)


@router.get("/metrics", operation_id="get_metrics", response_class=PlainTextResponse)
def metrics(context: Here) -> PlainTextResponse:
    """Figures for Prometheus: requests, queue, workers, records by state, room, this process."""
    return PlainTextResponse(context.metrics.written(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/version", operation_id="get_version")
async def version() -> Version:
    """Which version this is."""
    return Version(bln_search=VERSION, schema_revision=newest_revision())
