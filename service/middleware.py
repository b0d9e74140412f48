"""What every request passes on its way in and out: number, host, size, headers, log, figures."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.context import Context
from service.handlers import crashed, problem_response
from service.pace import SLOWED, Pace
from service.problems import RefusedError
from service.requests import new_request_id

_log = logging.getLogger("service.access")
API = "/api/v1"
"""Where the REST API begins."""

MOST_UNANSWERED = 32
"""Requests at once whose answer has not begun; more would wait for a second or longer, and hold up everything else."""

_ALWAYS_ADMITTED = ("/healthz", "/metrics", "/readyz", "/version")
"""What says how the service is doing; none of it takes a thread of other requests."""

_OPEN_A_SECOND = 100
"""Of these requests: so many a second are answered at once, the others a moment later."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Gate:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self.app = app
        self.context = context
        self._unanswered = 0
        self._pace = Pace(_OPEN_A_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        scope.setdefault("state", {})["request_id"] = new_request_id(request.headers.get("x-request-id"))
        passing = _Passing(scope, send)
        start = time.perf_counter()
        try:
            body = await self._checked_body(request, receive)
            async with self._admitted(request, passing):
                await self.app(scope, _replay(body, receive), passing.send)
        except RefusedError as refusal:  # the application answers its own
            await problem_response(request, refusal)(scope, receive, passing.send)
        except ClientDisconnect:
            pass  # half a request is none: nothing was done, and nobody waits for an answer
        except Exception as error:  # noqa: BLE001 - whatever it was, the caller gets an answer and the log the reason
            answer = crashed(request, error)
            if passing.status is None:
                await answer(scope, receive, passing.send)
        finally:
            self._note(scope, passing.status or 0, time.perf_counter() - start)

    async def _checked_body(self, request: Request, receive: Receive) -> bytes:
        """The body of a request for this service. Raises RefusedError, or ClientDisconnect where not all of it came."""
        if len(request.headers.getlist("host")) > 1:
            raise RefusedError(400, "host", "there is more than one Host header")
        host = request.headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        hosts = {one.lower() for one in self.context.settings.hosts}
        if "*" not in hosts and name.lower() not in hosts:
            raise RefusedError(400, "host", "this service does not answer to that host name")
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise RefusedError(400, "not-http", "Content-Length is not a number")
        return await _read(receive, self.context.settings.largest_body)

    @asynccontextmanager
    async def _admitted(self, request: Request, passing: _Passing) -> AsyncIterator[None]:
        """A request is worked on until its answer begins. Raises RefusedError (503) where too many are."""
        if request.scope["path"] in _ALWAYS_ADMITTED:
            await self._pace.keep()
            yield
            return
        if self._unanswered >= MOST_UNANSWERED:
            await asyncio.sleep(SLOWED)
            detail = "too many requests wait for an answer; try again"
            raise RefusedError(503, "busy", detail, headers={"Retry-After": "1"})
        self._unanswered += 1
        waits = True

        def release() -> None:
            nonlocal waits
            self._unanswered -= waits
            waits = False

        passing.on_start = release
        try:
            yield
        finally:
            release()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        template = _template(scope)
        self.context.metrics.answered(_method(scope), template, status, seconds)
        numbers = scope.get("path_params", {})
        _log.info(
            "%s %s %s",
            scope["method"],
            template,
            status,
            extra={
                "request_id": scope["state"]["request_id"],
                "seconds": round(seconds, 4),
                "study_id": numbers.get("study_id"),
            },
        )


def _template(scope: MutableMapping[str, Any]) -> str:
    """The pattern of the address, from the top of the host; of static files their folder; else `unknown`."""
    found = getattr(scope.get("route"), "path", None)
    if found is None:
        return str(scope.get("root_path", "")) or "unknown"
    within = scope["path"].startswith(f"{API}/") and not found.startswith(API)  # a route knows its own router only
    return f"{API}{found}" if within else str(found)


def _method(scope: MutableMapping[str, Any]) -> str:
    known = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


class _Passing:
    """Adds headers to what goes out, and remembers the status."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope, self._send = scope, send
        self.status: int | None = None
        self.on_start: Callable[[], None] = lambda: None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.on_start()
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.scope["state"]["request_id"]
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


async def _read(receive: Receive, most: int) -> bytes:
    """The whole body. Raises RefusedError (413) where it is too large, ClientDisconnect where the rest never comes."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        size += len(message.get("body", b""))
        if size > most:
            raise RefusedError(413, "too-large", f"the body is larger than {most:,} bytes")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand the body out once more, then whatever comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
