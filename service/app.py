"""The application, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import to_thread
from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from bln_search.core.version import VERSION
from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from bln_search.storage.queue import Queue
from service.boards import Boards
from service.context import Context
from service.gate import Gate
from service.limits import Rates
from service.openapi import describe
from service.problems import install_handlers
from service.routes import configurations, events, operations, results, studies, tokens

_STATIC = Path(__file__).parent / "static"
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
            context.closing = True

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
    api = APIRouter(prefix="/api/v1")
    for module in (studies, results, events, configurations, tokens):
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(operations.router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    app.add_api_route("/", _front, methods=["GET"], include_in_schema=False)
    install_handlers(app)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    if context is not None:
        app.state.context = context
        app.add_middleware(Gate, context=context)
    return app


async def _front() -> FileResponse:
    """Where the link of the first start leads."""
    return FileResponse(_STATIC / "index.html", media_type="text/html")


def make_context(settings: Settings, ledger: Ledger) -> Context:
    """Everything the application works with."""
    return Context(
        settings=settings,
        ledger=ledger,
        queue=Queue(ledger),
        boards=Boards(ledger.engine),
        rates=Rates(settings.requests_a_minute),
    )
