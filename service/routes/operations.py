"""Routes for operators and monitoring. They need no token, so they reveal nothing about studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from bln_search.core.version import VERSION
from bln_search.storage.migration import newest_known_schema_revision
from service.context import ContextDep
from service.schemas.operations import Health, Readiness, Version

router = APIRouter(tags=["operation"])
T = TypeVar("T")
_limiter = CapacityLimiter(2)
_NO_ANSWER = Readiness(
    ready=False, schema_revision=None, workers=0, detail="the database, or the checkpoint store, does not answer"
)


@router.get("/healthz", operation_id="get_health")
async def get_health() -> Health:
    """Whether this process responds."""
    return Health()


@router.get("/readyz", operation_id="get_readiness", responses={503: {"model": Readiness}})
async def get_readiness(context: ContextDep, response: Response) -> Readiness:
    """Whether the database has the schema of this version and its checkpoints, and a worker is running."""
    readiness = context.readiness.find_fresh_value() or await _run_in_reserved_thread(context.readiness) or _NO_ANSWER
    if not readiness.ready:
        response.status_code = 503
    return readiness


@router.get("/metrics", operation_id="get_metrics", response_class=PlainTextResponse)
async def get_metrics(context: ContextDep) -> PlainTextResponse:
    """Prometheus metrics: requests, queue, workers, records by state, disk, process."""
    text = await _run_in_reserved_thread(context.metrics.render_prometheus_text)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _run_in_reserved_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread that no other request uses."""
    return await to_thread.run_sync(function, limiter=_limiter)


@router.get("/version", operation_id="get_version")
async def get_version() -> Version:
    """Versions of the software, the API and the database schema."""
    return Version(bln_search=VERSION, schema_revision=newest_known_schema_revision())
