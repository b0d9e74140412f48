"""The application: its routes, middleware and context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import APIRouter, FastAPI

from bln_search.core.version import VERSION
from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from service.caching.analysis_cache import AnalysisCache
from service.caching.leaderboard_cache import LeaderboardCache
from service.caching.response_cache import ResponseCache
from service.context import AppContext
from service.event_feed import EventFeed
from service.exception_handlers import add_exception_handlers
from service.http.rate_limiter import RateLimiter
from service.middleware import API, RequestMiddleware
from service.monitoring.ledger_collector import LedgerCollector
from service.monitoring.metrics import ServiceMetrics
from service.monitoring.readiness import make_readiness_cache
from service.openapi import get_openapi_document
from service.pages import (
    access,
    charts,
    compare,
    compare_charts,
    configuration,
    layers,
    live,
    share_links,
    streams,
    study,
    trials,
)
from service.pages import exports as export_pages
from service.pages import studies as studies_page
from service.pages.editor import page as editor
from service.pages.leaderboard import page as leaderboard_page
from service.pages.rendering.assets import StaticAssets
from service.pages.rendering.documentation import DocumentationFiles, find_documentation_start
from service.pages.rendering.templates import compile_all_templates
from service.routes import (
    analysis,
    checkpoints,
    configurations,
    deliveries,
    events,
    external_results,
    leaderboard,
    operations,
    results,
    studies,
    tokens,
    workers,
)
from service.routes import exports as export_routes
from service.routes import share_links as share_link_routes
from service.routes import trials as trial_routes
from service.sessions_in_memory import SessionsInMemory

_REQUEST_THREADS = 8
"""Threads that handle requests; more would only contend for the same cores and database."""

_DESCRIPTION = (
    "Finds the inference configuration of a normalized network's statistics that works best. "
    "Submit a study, follow it, read its leaderboard. Errors are problem documents (RFC 9457)."
)


def make_app(context: AppContext | None) -> FastAPI:
    """Return the application.

    Args:
        context: Shared objects of the request handlers; None if only its OpenAPI document is needed.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = _REQUEST_THREADS
        compiling = asyncio.create_task(asyncio.to_thread(compile_all_templates))  # beside the first requests
        yield
        await compiling
        if context is not None:
            context.event_feed.closing = True

    app = FastAPI(
        title="bln-search",
        version=VERSION,
        description=_DESCRIPTION,
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api = APIRouter(prefix=API)
    of_study = (
        results,
        leaderboard,
        checkpoints,
        trial_routes,
        export_routes,
        share_link_routes,
        deliveries,
        analysis,
        events,
    )
    for module in (studies, external_results, *of_study, configurations, workers, tokens):
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(operations.router)
    pages_of_study = (
        study,
        live,
        trials,
        share_links,
        leaderboard_page,
        charts,
        layers,
        streams,
        configuration,
        export_pages,
    )
    for page in (access, studies_page, editor, *pages_of_study, compare, compare_charts):
        app.include_router(page.router)
    app.mount("/static", StaticAssets(), name="static")
    documentation = find_documentation_start()
    if documentation is not None:
        app.mount("/docs", DocumentationFiles(documentation.parent), name="docs")
    add_exception_handlers(app)
    root_path = "" if context is None else context.settings.root_path
    app.openapi = lambda: get_openapi_document(app, root_path)  # type: ignore[method-assign]
    if context is not None:
        app.state.context = context
        app.add_middleware(RequestMiddleware, context=context)
    return app


def make_app_context(settings: Settings, ledger: Ledger) -> AppContext:
    """Return the objects that the request handlers share."""
    return AppContext(
        settings=settings,
        ledger=ledger,
        leaderboards=LeaderboardCache(ledger),
        analyses=AnalysisCache(ledger.analyses),
        responses=ResponseCache(),
        rate_limiter=RateLimiter(settings.requests_a_minute),
        metrics=ServiceMetrics(LedgerCollector(ledger.monitoring, settings)),
        event_feed=EventFeed(ledger),
        readiness=make_readiness_cache(ledger, settings.checkpoint_store),
        sessions_in_memory=SessionsInMemory(ledger.tokens),
    )
