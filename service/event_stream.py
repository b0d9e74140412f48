"""Streams of a study's events (server-sent events): as JSON for programs, as HTML for its page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from bln_search.storage.events import EventRecord
from service.context import AppContext
from service.http.problems import ProblemException
from service.security import StudyAccess

_KEEP_ALIVE_SECONDS = 10.0
"""A stream without events sends a comment after this time."""

_MAX_STREAMS = 64
"""Streams of one account, or of one share link."""

_MAX_EVENT_NUMBER = 2**31 - 1

AfterEvent = Annotated[int, Query(ge=0, le=_MAX_EVENT_NUMBER, description="only events with higher numbers")]
LastEventId = Annotated[str | None, Header(max_length=20, include_in_schema=False)]
RenderEvents = Callable[[Sequence[EventRecord]], Awaitable[str]]
"""Returns the messages of a stream for some events."""


def make_event_stream_response(
    context: AppContext, study: StudyAccess, after: int, last_event_id: str | None, render: RenderEvents
) -> StreamingResponse:
    """Return a stream of the events of a study that ends with the study.

    Args:
        context: The application's context.
        study: The study.
        after: Number of the last event that the client has.
        last_event_id: The same from a browser that connects again; it counts if it is a number.
        render: Returns the messages for some events.

    Raises:
        ProblemException: The account (429) or the service (503) has too many streams.
    """
    last_id = last_event_id if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else None
    start = after if last_id is None else min(int(last_id), _MAX_EVENT_NUMBER)
    _count_stream_within_limits(context, study.bearer.rate_limit_key)
    return _CountedEventStreamResponse(
        context, study.bearer.rate_limit_key, _iter_event_stream_text(context, study, start, render)
    )


class _CountedEventStreamResponse(StreamingResponse):
    """A stream; it counts among the client's open streams until it ends."""

    def __init__(self, context: AppContext, client: str, content: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self.context, self.client = context, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.context.streams[self.client] -= 1


def _count_stream_within_limits(context: AppContext, client: str) -> None:
    """Count a new stream. Raises ProblemException if the client (429) or the service (503) has too many."""
    if context.streams[client] >= _MAX_STREAMS:
        detail = f"{_MAX_STREAMS} streams are open already; close one"
        raise ProblemException(429, "too-many-streams", detail, headers={"Retry-After": "5"})
    connections = context.settings.most_connections
    if connections is not None and context.streams.total() >= connections // 2:
        detail = "event streams use half of the connections of this service already; try again"
        raise ProblemException(503, "busy", detail, headers={"Retry-After": "5"})
    context.streams[client] += 1


async def _iter_event_stream_text(
    context: AppContext, study: StudyAccess, last: int, render: RenderEvents
) -> AsyncIterator[str]:
    """Yield the events after `last` as text, then new ones, until the study ends or the token expires."""
    yield "retry: 1000\n\n"
    with context.event_feed.use_subscription(study.id, study.bearer.token_id) as subscription:
        while True:
            await subscription.wait_until_event_after(last, _KEEP_ALIVE_SECONDS)
            if subscription.is_closed:
                return
            records = (
                await context.event_feed.list_next_events(study.id, last) if subscription.last_event > last else ()
            )
            if records:
                yield await render(records)
                last = records[-1].number
                continue
            if subscription.has_ended:
                yield "event: end\ndata: {}\n\n"
                return
            yield ": still here\n\n"
