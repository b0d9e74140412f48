"""Routes of a study's events: a list, and a stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from bln_search.storage.events import EventRecord
from service.api_route import ApiRoute
from service.context import Context, ContextDep
from service.http.problems import ProblemException
from service.schemas.results import EventList
from service.security import ReadableStudy, StudyAccess
from service.serializers import serialize_event

router = APIRouter(prefix="/studies/{study_id:number}", tags=["events"], route_class=ApiRoute)
_KEEP_ALIVE_SECONDS = 10.0
"""A stream without events sends a comment after this time."""

_MAX_STREAMS = 64
"""Streams of one account."""

_MAX_EVENT_NUMBER = 2**31 - 1


@router.get(
    "/events",
    operation_id="list_events",
    response_model=EventList,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def list_events(
    study: ReadableStudy,
    context: ContextDep,
    after: Annotated[int, Query(ge=0, le=_MAX_EVENT_NUMBER, description="only events with higher numbers")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="of the JSON list")] = 500,
    accept: Annotated[str | None, Header(max_length=500, include_in_schema=False)] = None,
    last_event_id: Annotated[str | None, Header(max_length=20, include_in_schema=False)] = None,
) -> Response:
    """Events of a study, oldest first: a JSON list, or with `Accept: text/event-stream` a stream of new events.

    The stream starts after the event `Last-Event-ID` if that header is sent, else after `after`. It sends every event
    exactly once and ends with the study.
    """
    if accept is not None and "text/event-stream" in accept:
        last_id = last_event_id if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else None
        start = after if last_id is None else min(int(last_id), _MAX_EVENT_NUMBER)
        _count_stream(context, study.bearer.account)
        return _EventStream(context, study.bearer.account, _stream_events(context, study, start))
    records = await run_in_threadpool(context.ledger.events.list_events, study.id, after, limit)
    event_list = EventList(
        events=[serialize_event(record) for record in records], last=records[-1].number if records else after
    )
    return JSONResponse(event_list.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


class _EventStream(StreamingResponse):
    """A stream; it counts among the account's open streams until it ends."""

    def __init__(self, context: Context, account: str, content: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self.context, self.account = context, account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.context.streams[self.account] -= 1


def _count_stream(context: Context, account: str) -> None:
    """Count a new stream. Raises ProblemException if the account (429) or the service (503) has too many."""
    if context.streams[account] >= _MAX_STREAMS:
        detail = f"{_MAX_STREAMS} streams are open already; close one"
        raise ProblemException(429, "too-many-streams", detail, headers={"Retry-After": "5"})
    connections = context.settings.most_connections
    if connections is not None and context.streams.total() >= connections // 2:
        detail = "event streams use half of the connections of this service already; try again"
        raise ProblemException(503, "busy", detail, headers={"Retry-After": "5"})
    context.streams[account] += 1


async def _stream_events(context: Context, study: StudyAccess, last: int) -> AsyncIterator[str]:
    """Yield the events after `last` as text, then new ones, until the study ends or the token expires."""
    yield "retry: 1000\n\n"
    with context.event_feed.subscribe(study.id, study.bearer.token_id) as subscription:
        while True:
            await subscription.wait(last, _KEEP_ALIVE_SECONDS)
            if subscription.is_closed:
                return
            records = await context.event_feed.events(study.id, last) if subscription.last_event > last else ()
            for record in records:
                yield _event_text(record)
                last = record.number
            if records:
                continue
            if subscription.has_ended:
                yield "event: end\ndata: {}\n\n"
                return
            yield ": still here\n\n"


def _event_text(record: EventRecord) -> str:
    data = json.dumps(serialize_event(record).model_dump(mode="json"), separators=(",", ":"))
    return f"id: {record.number}\nevent: {record.kind}\ndata: {data}\n\n"
