"""HTTP connections with limits: the size of a request, the time until it is complete, the number of connections.

httptools, which parses requests for uvicorn, limits none of these, and the application sees a request only once its
headers are complete.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.problems import MEDIA_TYPE, ProblemDocument, RefusedError
from service.requests import new_request_id

_SLICE = 16_384
"""Bytes handed to the parser at once: sizes are checked in between."""

_LARGEST_TARGET = 8_192
_LARGEST_HEAD = 32_768
_MOST_HEADERS = 100
_WIRE_BYTES = 8
"""Bytes on the wire for one byte of the largest body: in chunks of one byte each of them takes six."""

_STALLED_SECONDS = 60.0
"""Time after which a connection is closed whose client reads nothing of its answer."""

_MOST_CONNECTIONS = 1_000
_RESERVED_FILES = 64
"""Open files of the database, logs and the process itself."""


def default_connections() -> int:
    """Connections that the limit on open files allows: each may have a file open besides, which it downloads."""
    if sys.platform == "win32":
        return _MOST_CONNECTIONS
    import resource  # noqa: PLC0415 - there is none on Windows

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(8, min(_MOST_CONNECTIONS, (files - _RESERVED_FILES) // 2))


@dataclass(frozen=True)
class ConnectionLimits:
    """What clients may use before anything is known of them.

    connections: at once.
    header_seconds: from the connection, or the first byte of a later request, until its headers are complete.
    body_seconds: from then until its body is complete.
    largest_body: bytes.
    """

    connections: int
    header_seconds: float
    body_seconds: float
    largest_body: int


class _Phase(Enum):
    """What of a request has arrived."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class LimitedConnection(HttpToolsProtocol):
    """A connection that keeps to `limits`. `on_refused` hears the status of every refusal."""

    limits: ClassVar[ConnectionLimits]
    on_refused: ClassVar[Callable[[int], None]]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection that waits longest where there are too many, or this one where all are busy."""
        self._phase = _Phase.NOTHING
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._refusal: RefusedError | None = None
        self._reset_counts()
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._make_room():
            detail = f"all {self.limits.connections} connections are in use; try again"
            self._refuse(RefusedError(503, "busy", detail, headers={"Retry-After": "1"}))
        else:
            self._set_deadline(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is waited for."""
        self._set_deadline(None)
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a part of a request, as far as it keeps to the limits."""
        for start in range(0, len(data), _SLICE):
            if self.transport.is_closing():
                return
            part = data[start : start + _SLICE]
            if self._phase is not _Phase.NOTHING:
                self._bytes += len(part)
            super().data_received(part)
            self._check_size()
        if self._phase is _Phase.NOTHING and self._deadline is None and not self._is_answering:
            self._set_deadline(self.limits.header_seconds)  # empty lines are no request, and hold the connection

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._reset_counts()
        self._phase = _Phase.HEAD
        if self._deadline is None:
            self._set_deadline(self.limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        super().on_url(url)
        if len(self.url) > _LARGEST_TARGET:
            self._fail(414, "target", f"the address is longer than {_LARGEST_TARGET:,} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._headers += 1
        self._header_bytes += len(name) + len(value)
        if self._headers > _MOST_HEADERS:
            self._fail(431, "headers", f"the request has more than {_MOST_HEADERS} headers")
        if self._header_bytes > _LARGEST_HEAD:
            self._fail(431, "headers", f"the headers are larger than {_LARGEST_HEAD:,} bytes")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The application takes over; the body may still be on its way."""
        if not self.url.startswith(b"/"):
            self._use_authority()
        self._phase = _Phase.BODY
        self._set_deadline(self.limits.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._phase = _Phase.NOTHING
        self._set_deadline(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is handed to the connection."""
        self._since = self.loop.time()
        self._watch_unsent()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than the application answers."""
        super().pause_writing()
        self._watch_unsent()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._stop_watching()

    def send_400_response(self, msg: str) -> None:
        """What the parser, or a limit, refuses."""
        self._refuse(self._refusal or RefusedError(400, "not-http", msg))

    @property
    def is_waiting(self) -> bool:
        """Is nothing asked, or not completely?"""
        return not self._is_answering and not self.transport.is_closing()

    @property
    def waiting_since(self) -> float:
        """The time of the loop when the connection was made, its last answer ended or its next request began."""
        return self._since

    def give_up(self) -> None:
        """Close the connection: its request did not arrive completely, or none did."""
        if self._phase is _Phase.NOTHING:
            self.connections.discard(self)
            self.transport.close()
        else:
            self._refuse(RefusedError(408, "timeout", "the request did not arrive completely in time"))

    @property
    def _is_answering(self) -> bool:
        """Does a complete request wait for the end of its answer?"""
        if self.pipeline:
            return True
        return self._phase is not _Phase.BODY and self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> bool:
        """Close the connection that waits longest; False where every one is busy."""
        others = [one for one in self.connections if isinstance(one, LimitedConnection) and one is not self]
        waiting = [one for one in others if one.is_waiting]
        if not waiting:
            return False
        min(waiting, key=lambda one: one.waiting_since).give_up()
        return True

    def _reset_counts(self) -> None:
        self._since = self.loop.time()
        self._bytes = self._headers = self._header_bytes = 0

    def _check_size(self) -> None:
        if self._phase is _Phase.HEAD and self._bytes > _LARGEST_HEAD:
            detail = f"the headers are larger than {_LARGEST_HEAD:,} bytes"
            self._refuse(RefusedError(431, "headers", detail))
        elif self._phase is _Phase.BODY and self._bytes > _LARGEST_HEAD + _WIRE_BYTES * self.limits.largest_body:
            self._refuse(RefusedError(413, "too-large", f"the body is larger than {self.limits.largest_body:,} bytes"))

    def _use_authority(self) -> None:
        """Of an absolute target: its authority is the host that is meant (RFC 9112, 3.2.2); two hosts stay two."""
        target = httptools.parse_url(self.url)
        if target.host is None:
            return
        host = b"[%s]" % target.host if b":" in target.host else target.host
        port = b"" if target.port is None else b":%d" % target.port
        if sum(name == b"host" for name, _ in self.headers) == 1:
            self.headers[:] = [(name, host + port if name == b"host" else value) for name, value in self.headers]
        self.url = (target.path or b"/") + (b"" if target.query is None else b"?" + target.query)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        if self._is_answering or self.flow.read_paused:  # an earlier request is answered first
            self._set_deadline(self.limits.header_seconds)
        elif not self.transport.is_closing():
            self.give_up()

    def _watch_unsent(self) -> None:
        """Close the connection where the client reads nothing more of what is left to send."""
        self._stop_watching()
        unsent = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(_STALLED_SECONDS, self._check_unsent, unsent)

    def _stop_watching(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _check_unsent(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._watch_unsent()
        elif before:
            self.transport.abort()

    def _fail(self, status: int, kind: str, detail: str) -> None:
        """Stop the parser, which calls this."""
        self._refusal = RefusedError(status, kind, detail)
        raise self._refusal

    def _refuse(self, refusal: RefusedError) -> None:
        """Answer, unless another answer was begun, and close."""
        if not self._is_answering and not (self._phase is _Phase.BODY and self.cycle.response_started):
            self.transport.write(_written(refusal))
        type(self).on_refused(refusal.status)
        self.connections.discard(self)
        self.transport.close()


def limited_connection(limits: ConnectionLimits, on_refused: Callable[[int], None]) -> type[LimitedConnection]:
    """The class that uvicorn makes an object of for each connection."""
    return type("_Connection", (LimitedConnection,), {"limits": limits, "on_refused": staticmethod(on_refused)})


def _written(refusal: RefusedError) -> bytes:
    """A refusal as HTTP; the application never hears of the request."""
    phrase = HTTPStatus(refusal.status).phrase
    request_id = new_request_id(None)
    document = ProblemDocument(
        type=f"urn:bln-search:problem:{refusal.kind}",
        title=phrase,
        status=refusal.status,
        detail=refusal.detail,
        instance="",
        request_id=request_id,
    )
    body = document.model_dump_json().encode()
    headers = {
        **refusal.headers,
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(body)),
        "X-Request-Id": request_id,
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {refusal.status} {phrase}\r\n{lines}\r\n".encode() + body
