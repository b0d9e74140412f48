"""HTTP connections with limits: request size, time until a request is complete, number of connections.

httptools, the parser of uvicorn, enforces none of these limits, and the application receives a request only after its
headers are complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.connection_limits import ConnectionLimits
from service.http.problems import ProblemException
from service.http.raw_response import encode_problem_as_http_response

_SLICE_BYTES = 16_384
"""Bytes handed to the parser at once; sizes are checked after each slice."""

_MAX_TARGET_BYTES = 8_192
_MAX_HEADER_BYTES = 32_768
_MAX_HEADERS = 100
_WIRE_BYTES = 8
"""Limit on the bytes on the wire for each byte of the body; a chunk of one byte takes six."""

_STALLED_SECONDS = 60.0
"""A connection is closed if its client reads nothing of the response for this long."""


class _RequestParserPhase(Enum):
    """Part of a request that the parser is in."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class LimitedConnection(HttpToolsProtocol):
    """A connection with limits.

    Attributes:
        limits: Its limits.
        on_refused: Called with the status of every request that the connection refuses.
    """

    limits: ClassVar[ConnectionLimits]
    on_refused: ClassVar[Callable[[int], None]]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; at the limit, close the one that is idle longest, or this one if none is idle."""
        self._phase = _RequestParserPhase.NOTHING
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._problem: ProblemException | None = None
        self._reset_request_size_counts()
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._close_longest_idle():
            detail = f"all {self.limits.connections} connections are in use; try again"
            self._refuse_request(ProblemException(503, "busy", detail, headers={"Retry-After": "1"}))
        else:
            self._set_deadline(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._set_deadline(None)
        self._stop_watching_buffer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes in slices until a limit is exceeded."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                return
            chunk = data[start : start + _SLICE_BYTES]
            if self._phase is not _RequestParserPhase.NOTHING:
                self._bytes += len(chunk)
            super().data_received(chunk)
            self._refuse_if_too_large()
        if self._phase is _RequestParserPhase.NOTHING and self._deadline_timer is None and not self._is_answering:
            self._set_deadline(self.limits.header_seconds)  # empty lines start no request

    def on_message_begin(self) -> None:
        """Start the header deadline at the first byte of a request."""
        super().on_message_begin()
        self._reset_request_size_counts()
        self._phase = _RequestParserPhase.HEAD
        if self._deadline_timer is None:
            self._set_deadline(self.limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        """Limit the length of the request target."""
        super().on_url(url)
        if len(self.url) > _MAX_TARGET_BYTES:
            self._store_and_raise_parsing_problem(
                414, "target", f"the address is longer than {_MAX_TARGET_BYTES:,} bytes"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Limit the number and the size of headers and trailers."""
        self._headers += 1
        self._header_bytes += len(name) + len(value)
        if self._headers > _MAX_HEADERS:
            self._store_and_raise_parsing_problem(431, "headers", f"the request has more than {_MAX_HEADERS} headers")
        if self._header_bytes > _MAX_HEADER_BYTES:
            self._store_and_raise_parsing_problem(
                431, "headers", f"the headers are larger than {_MAX_HEADER_BYTES:,} bytes"
            )
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the body deadline. The application receives the request now."""
        if not self.url.startswith(b"/"):
            self._replace_host_header()
        self._body_limit = self.limits.find_body_limit(self.url)
        self._phase = _RequestParserPhase.BODY
        self._set_deadline(self.limits.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Cancel the deadline: the request is complete."""
        self._phase = _RequestParserPhase.NOTHING
        self._set_deadline(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Watch the transport's buffer: the application has sent the whole response."""
        self._idle_since = self.loop.time()
        self._watch_unsent_buffer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Watch the transport's buffer: the client reads more slowly than the application sends."""
        super().pause_writing()
        self._watch_unsent_buffer()

    def resume_writing(self) -> None:
        """Stop watching the buffer: the client has read."""
        super().resume_writing()
        self._stop_watching_buffer()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser, or a limit during parsing, rejects."""
        self._refuse_request(self._problem or ProblemException(400, "not-http", msg))

    @property
    def has_no_pending_response(self) -> bool:
        """Is there no complete request that waits for its response?"""
        return not self._is_answering and not self.transport.is_closing()

    @property
    def last_activity_at(self) -> float:
        """Time of the event loop when the connection was made, its last response ended or its next request began."""
        return self._idle_since

    def close_or_refuse_with_408(self) -> None:
        """Close the connection, with 408 if a request has begun."""
        if self._phase is _RequestParserPhase.NOTHING:
            self.connections.discard(self)
            self.transport.close()
        else:
            self._refuse_request(ProblemException(408, "timeout", "the request did not arrive completely in time"))

    @property
    def _is_answering(self) -> bool:
        """Is a response pending or incomplete?"""
        if self.pipeline:
            return True
        return (
            self._phase is not _RequestParserPhase.BODY and self.cycle is not None and not self.cycle.response_complete
        )

    def _close_longest_idle(self) -> bool:
        """Close the connection that is idle longest. Returns False if none is idle."""
        others = [other for other in self.connections if isinstance(other, LimitedConnection) and other is not self]
        idle = [other for other in others if other.has_no_pending_response]
        if not idle:
            return False
        min(idle, key=lambda other: other.last_activity_at).close_or_refuse_with_408()
        return True

    def _reset_request_size_counts(self) -> None:
        self._idle_since = self.loop.time()
        self._bytes = self._headers = self._header_bytes = 0

    def _refuse_if_too_large(self) -> None:
        if self._phase is _RequestParserPhase.HEAD and self._bytes > _MAX_HEADER_BYTES:
            detail = f"the headers are larger than {_MAX_HEADER_BYTES:,} bytes"
            self._refuse_request(ProblemException(431, "headers", detail))
        elif (
            self._phase is _RequestParserPhase.BODY and self._bytes > _MAX_HEADER_BYTES + _WIRE_BYTES * self._body_limit
        ):
            detail = f"the body is larger than {self._body_limit:,} bytes"
            self._refuse_request(ProblemException(413, "too-large", detail))

    def _replace_host_header(self) -> None:
        """Replace the Host header by the authority of an absolute target (RFC 9112, 3.2.2); two headers stay two."""
        target = httptools.parse_url(self.url)
        if target.host is None:
            return
        host = b"[%s]" % target.host if b":" in target.host else target.host
        port = b"" if target.port is None else b":%d" % target.port
        if sum(name == b"host" for name, _ in self.headers) == 1:
            self.headers[:] = [(name, host + port if name == b"host" else value) for name, value in self.headers]
        self.url = (target.path or b"/") + (b"" if target.query is None else b"?" + target.query)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline_timer = (
            None if seconds is None else self.loop.call_later(seconds, self._close_or_extend_at_deadline)
        )

    def _close_or_extend_at_deadline(self) -> None:
        self._deadline_timer = None
        if self._is_answering or self.flow.read_paused:  # the response to an earlier request is pending
            self._set_deadline(self.limits.header_seconds)
        elif not self.transport.is_closing():
            self.close_or_refuse_with_408()

    def _watch_unsent_buffer(self) -> None:
        """Close the connection if the client reads nothing until the timeout."""
        self._stop_watching_buffer()
        unsent = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(_STALLED_SECONDS, self._abort_if_client_stalled, unsent)

    def _stop_watching_buffer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _abort_if_client_stalled(self, unsent: int) -> None:
        if self.transport.get_write_buffer_size() < unsent:
            self._watch_unsent_buffer()
        elif unsent:
            self.transport.abort()

    def _store_and_raise_parsing_problem(self, status: int, kind: str, detail: str) -> None:
        """Stop the parser, which calls the caller of this method."""
        self._problem = ProblemException(status, kind, detail)
        raise self._problem

    def _refuse_request(self, problem: ProblemException) -> None:
        """Send the problem, unless another response has begun, and close the connection."""
        if not self._is_answering and not (self._phase is _RequestParserPhase.BODY and self.cycle.response_started):
            self.transport.write(encode_problem_as_http_response(problem))
        type(self).on_refused(problem.status)
        self.connections.discard(self)
        self.transport.close()


def make_connection_class(limits: ConnectionLimits, on_refused: Callable[[int], None]) -> type[LimitedConnection]:
    """Return the protocol class for uvicorn, which creates an instance for each connection.

    Args:
        limits: Limits of the connections.
        on_refused: Called with the status of every refused request.
    """
    return type("_Connection", (LimitedConnection,), {"limits": limits, "on_refused": staticmethod(on_refused)})
