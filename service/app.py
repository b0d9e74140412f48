"""The application, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import APIRouter, FastAPI

from bln_search.core.version import VERSION
from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from bln_search.storage.queue import Queue
from service.analyses import Analyses
from service.collector import LedgerCollector
from service.context import Context
from service.feed import Feed
from service.handlers import install_handlers
from service.leaderboard_cache import Boards
from service.limits import Rates
from service.metrics import Metrics
from service.middleware import API, Gate
from service.openapi import describe
from service.pages import access, charts, compare, configuration, layers, leaderboard, new, study
from service.pages import studies as study_list
from service.pages.assets import Assets
from service.readiness import cached_readiness
from service.routes import analysis, configurations, events, operations, per_layer, results, studies, tokens

_THREADS = 8
"""Requests worked on at once; more would only wait for one another."""

_ABOUT = (
    "Finds the inference configuration of a normalized network's statistics that works best. "
    "Send a study in, follow it, read its ranked table. Errors are problem documents (RFC 9457)."
)


def make_app(context: Context | None) -> FastAPI:
    """The application; without a context it can only describe itself."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = _THREADS
        yield
        if context is not None:
            context.feed.closing = True

    app = FastAPI(
        title="bln-search",
        version=VERSION,
        description=_ABOUT,
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api = APIRouter(prefix=API)
    for module in (studies, results, analysis, per_layer, events, configurations, tokens):
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(operations.router)
    for page in (access, study_list, new, study, leaderboard, charts, layers, configuration, compare):
        app.include_router(page.router)
    app.mount("/static", Assets(), name="static")
    install_handlers(app)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    if context is not None:
        app.state.context = context
        app.add_middleware(Gate, context=context)
    return app


def make_context(settings: Settings, ledger: Ledger) -> Context:
    """Everything the application works with."""
    return Context(
        settings=settings,
        ledger=ledger,
        queue=Queue(ledger),
        boards=Boards(ledger.engine),
        analyses=Analyses(ledger.engine),
        rates=Rates(settings.requests_a_minute),
        metrics=Metrics(LedgerCollector(ledger.engine, settings)),
        feed=Feed(ledger.engine),
        readiness=cached_readiness(ledger.engine),
    )
