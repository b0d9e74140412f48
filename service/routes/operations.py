"""What those who run the service look at. Without a token: nothing here tells of anybody's studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from bln_search.core.version import VERSION
from bln_search.storage.migration import newest_revision
from service.context import Here
from service.schemas import Health, Readiness, Version

router = APIRouter(tags=["operation"])
T = TypeVar("T")
_limiter = CapacityLimiter(2)
_NO_DATABASE = Readiness(ready=False, schema_revision=None, workers=0, detail="the database does not answer")


@router.get("/healthz", operation_id="get_health")
async def healthz() -> Health:
    """This process answers."""
    return Health()


@router.get("/readyz", operation_id="get_readiness", responses={503: {"model": Readiness}})
async def readyz(context: Here, response: Response) -> Readiness:
    """Whether the database is there with the tables of this version, and a worker takes studies."""
    readiness = context.readiness.fresh() or await _aside(context.readiness) or _NO_DATABASE
    if not readiness.ready:
        response.status_code = 503
    return readiness


@router.get("/metrics", operation_id="get_metrics", response_class=PlainTextResponse)
async def metrics(context: Here) -> PlainTextResponse:
    """Figures for Prometheus: requests, queue, workers, records by state, room, this process."""
    written = await _aside(context.metrics.written)
    return PlainTextResponse(written, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _aside(make: Callable[[], T]) -> T:
    """In a thread that other requests do not take."""
    return await to_thread.run_sync(make, limiter=_limiter)


@router.get("/version", operation_id="get_version")
async def version() -> Version:
    """Which version this is."""
    return Version(bln_search=VERSION, schema_revision=newest_revision())
