"""ASGI middleware around the application: request id, host check, body limit, overload, headers, log, metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bln_search.core.urls import format_url_host
from service.body_limits import authorize_and_get_body_limit
from service.context import AppContext
from service.exception_handlers import log_and_make_internal_error_response, make_problem_response
from service.http.heavy_work import MAX_WAITING
from service.http.page_compression import PageCompressionMiddleware
from service.http.problems import ProblemException
from service.http.request_ids import choose_request_id
from service.http.root_path import add_root_path_to_headers, enter_root_path
from service.http.throttle import THROTTLE_DELAY, RequestsPerSecondThrottle
from service.request_body import LARGE_BODY

_log = logging.getLogger("service.access")
API = "/api/v1"
"""Path prefix of the REST API."""

MAX_PENDING_REQUESTS = 32
"""Requests without a response yet. More would wait for a second or longer and delay all others."""

MAX_PENDING_LARGE_BODIES = 1 + MAX_WAITING
"""Requests with a large body without a response yet, of all clients: others keep most places, and some threads."""

_LARGE_BODY_DELAY = 1.0
"""Seconds until a further one is refused, so that clients in a loop do not send megabytes all the time."""

_UNLIMITED_PATHS = ("/healthz", "/metrics", "/readyz", "/version")
"""Endpoints for monitoring; they take no thread from other requests."""

_MAX_LOGGED_PATH = 200
"""Bytes of a path in the log."""

_SECRET = re.compile(r"bln_[A-Za-z0-9_%-]{16,}")
"""What looks like an access token, or a large part of one."""

_UNLIMITED_PER_SECOND = 100
"""Requests to these paths that are answered without delay."""

_SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
_DOCUMENT_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers that a browser reads from documents: scripts, style sheets and JSON go without them."""

_NO_DOCUMENT = ("text/javascript", "text/css", "application/json")


class RequestMiddleware:
    """The outermost middleware of the application."""

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self.app = PageCompressionMiddleware(app, API)
        self.context = context
        self._pending_requests = self._pending_large_bodies = 0
        self._throttle = RequestsPerSecondThrottle(_UNLIMITED_PER_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = enter_root_path(scope, self.context.settings.root_path)
        request = Request(scope)
        scope.setdefault("state", {})["request_id"] = choose_request_id(request.headers.get("x-request-id"))
        response = _ResponseInterceptor(scope, send)
        start = time.perf_counter()
        try:
            body = await self._check_headers_and_read_body(request, receive)
            async with self._count_as_pending(request, response, is_large=len(body) > LARGE_BODY):
                await self.app(scope, _make_buffered_receive(body, receive), response.send)
        except ProblemException as problem:  # the application handles those that it raises itself
            await make_problem_response(request, problem)(scope, receive, response.send)
        except ClientDisconnect:
            pass  # the request is incomplete: the application did nothing, and no client waits for a response
        except Exception as error:  # noqa: BLE001 - every error gets a response and a log entry
            error_response = log_and_make_internal_error_response(request, error)
            if response.status is None:
                await error_response(scope, receive, response.send)
        finally:
            self._record_in_metrics_and_log(scope, response.status or 0, time.perf_counter() - start)

    async def _check_headers_and_read_body(self, request: Request, receive: Receive) -> bytes:
        """Check the headers and return the body.

        Starlette's `TrustedHostMiddleware` splits the host at the first colon, which is wrong for `[::1]`.

        Raises:
            ProblemException: 400 for a wrong host or length, 401 for large results without a valid token, 413 for a
                body that is too large.
            ClientDisconnect: The client closed the connection before the body was complete.
        """
        if len(request.headers.getlist("host")) > 1:
            raise ProblemException(400, "host", "there is more than one Host header")
        host = request.headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        allowed = {host.lower() for host in self.context.settings.hosts}
        if "*" not in allowed and format_url_host(name) not in allowed:
            raise ProblemException(400, "host", "this service does not answer to that host name")
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise ProblemException(400, "not-http", "Content-Length is not a number")
        return await _read_whole_body(receive, await authorize_and_get_body_limit(request, self.context.settings))

    @asynccontextmanager
    async def _count_as_pending(
        self, request: Request, response: _ResponseInterceptor, *, is_large: bool
    ) -> AsyncIterator[None]:
        """Count the request as pending until its response starts.

        Raises:
            ProblemException: 503 if too many requests are pending, or too many with a large body.
        """
        if request.scope["path"] in _UNLIMITED_PATHS:
            await self._throttle.wait_if_over_limit()
            yield
            return
        if self._pending_requests >= MAX_PENDING_REQUESTS:
            await asyncio.sleep(THROTTLE_DELAY)
            detail = "too many requests wait for an answer; try again"
            raise ProblemException(503, "busy", detail, headers={"Retry-After": "1"})
        if is_large and self._pending_large_bodies >= MAX_PENDING_LARGE_BODIES:
            await asyncio.sleep(_LARGE_BODY_DELAY)
            detail = "too many large requests wait for an answer; try again"
            raise ProblemException(503, "busy", detail, headers={"Retry-After": "1"})
        self._pending_requests += 1
        self._pending_large_bodies += is_large
        is_pending = True

        def release() -> None:
            nonlocal is_pending
            self._pending_requests -= is_pending
            self._pending_large_bodies -= is_pending and is_large
            is_pending = False

        response.on_start = release
        try:
            yield
        finally:
            release()

    def _record_in_metrics_and_log(self, scope: Scope, status: int, seconds: float) -> None:
        """Write the request to metrics and access log."""
        template = _route_path_template(scope)
        self.context.metrics.observe_request(_method_label(scope), template, status, seconds)
        bearer = scope["state"].get("bearer")
        _log.info(
            "%s %s %s",
            scope["method"],
            _path_without_secrets_for_log(scope),
            status,
            extra={
                "request_id": scope["state"]["request_id"],
                "seconds": round(seconds, 4),
                "study_id": scope.get("path_params", {}).get("study_id"),
                "client": scope["client"][0] if scope.get("client") else None,
                "account": None if bearer is None else bearer.account,
                "token_id": None if bearer is None else bearer.token_id,
            },
        )


def _path_without_secrets_for_log(scope: MutableMapping[str, Any]) -> str:
    """Return the path of the request for the log, without query and without tokens.

    It is percent-encoded, so that no path adds a line to the log.
    """
    raw_path = scope.get("raw_path") or scope["path"].encode(errors="replace")
    encoded = quote(raw_path.partition(b"?")[0][:_MAX_LOGGED_PATH], safe="/%:~!$&'()*+,;=@")
    return _SECRET.sub("bln_(secret)", encoded)


def _route_path_template(scope: MutableMapping[str, Any]) -> str:
    """Return the route's path template from the root; for static files their mount path; else `unknown`."""
    template = getattr(scope.get("route"), "path", None)
    if template is None:
        return str(scope.get("root_path", "")) or "unknown"
    lacks_prefix = scope["path"].startswith(f"{API}/") and not template.startswith(API)  # relative to its router
    return f"{API}{template}" if lacks_prefix else str(template)


def _method_label(scope: MutableMapping[str, Any]) -> str:
    standard_methods = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS")
    return scope["method"] if scope["method"] in standard_methods else "other"


class _ResponseInterceptor:
    """Wraps `send`: adds headers to the response and records its status.

    Attributes:
        status: HTTP status of the response; None before the response starts.
        on_start: Called when the response starts.
    """

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
            is_document = not headers.get("content-type", "").startswith(_NO_DOCUMENT)
            for name, value in {**_SECURITY_HEADERS, **(_DOCUMENT_HEADERS if is_document else {})}.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
            add_root_path_to_headers(headers)
        await self._send(message)


async def _read_whole_body(receive: Receive, max_bytes: int) -> bytes:
    """Return the whole body. Raises ProblemException (413) if it is too large, ClientDisconnect if it is incomplete."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise ProblemException(413, "too-large", f"the body is larger than {max_bytes:,} bytes")
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _make_buffered_receive(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body first, then what `receive` yields."""
    is_sent = False

    async def receive_again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
