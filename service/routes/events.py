"""What happens in a study, as it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from bln_search.storage.browse import list_events
from bln_search.storage.tables import EventRow
from service.context import Context, Here
from service.problems import RefusedError
from service.schemas import EventList
from service.security import OwnStudy, Seen
from service.views import event_view

router = APIRouter(prefix="/studies/{study_id:number}", tags=["events"])
_KEEP_ALIVE = 10.0
"""Seconds of silence after which a stream says that it is there."""

_STREAMS = 64
"""Streams of one account."""

_LARGEST = 2**31 - 1


@router.get(
    "/events",
    operation_id="list_events",
    response_model=EventList,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    study: Seen,
    context: Here,
    after: Annotated[int, Query(ge=0, le=_LARGEST, description="only events with higher numbers")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="of the JSON list")] = 500,
    accept: Annotated[str | None, Header(max_length=500, include_in_schema=False)] = None,
    last_event_id: Annotated[str | None, Header(max_length=20, include_in_schema=False)] = None,
) -> Response:
    """Events of a study, oldest first: as JSON, or as a stream (`Accept: text/event-stream`) that goes on.

    The stream starts behind `Last-Event-ID` where that is sent, else behind `after`: no event is missed, none comes
    twice. It ends with the study.
    """
    if accept is not None and "text/event-stream" in accept:
        given = last_event_id if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else None
        start = after if given is None else min(int(given), _LARGEST)
        _count_stream(context, study.bearer.account)
        return _EventStream(context, study.bearer.account, _texts(context, study, start))
    rows = await run_in_threadpool(list_events, context.engine, study.id, after, limit)
    shown = EventList(events=[event_view(row) for row in rows], last=rows[-1].number if rows else after)
    return JSONResponse(shown.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


class _EventStream(StreamingResponse):
    """A stream that counts among its account's until it ends."""

    def __init__(self, context: Context, account: str, content: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self.context, self.account = context, account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.context.streams[self.account] -= 1


def _count_stream(context: Context, account: str) -> None:
    """One more. Raises RefusedError where the account (429), or the service (503), has too many open."""
    if context.streams[account] >= _STREAMS:
        detail = f"{_STREAMS} streams are open already; close one"
        raise RefusedError(429, "too-many-streams", detail, headers={"Retry-After": "5"})
    connections = context.settings.most_connections
    if connections is not None and context.streams.total() >= connections // 2:
        detail = "half of the connections of this service are streams already; try again"
        raise RefusedError(503, "busy", detail, headers={"Retry-After": "5"})
    context.streams[account] += 1


async def _texts(context: Context, study: OwnStudy, last: int) -> AsyncIterator[str]:
    """Everything after `last`, then what is new, until the study is over or its reader may not read on."""
    yield "retry: 1000\n\n"
    with context.feed.follow(study.id, study.bearer.token_id) as follower:
        while True:
            await follower.wait(last, _KEEP_ALIVE)
            if follower.cut:
                return
            rows = await context.feed.events(study.id, last) if follower.newest > last else ()
            for row in rows:
                yield _written(row)
                last = row.number
            if rows:
                continue
            if follower.over:
                yield "event: end\ndata: {}\n\n"
                return
            yield ": still here\n\n"


def _written(row: EventRow) -> str:
    data = json.dumps(event_view(row).model_dump(mode="json"), separators=(",", ":"))
    return f"id: {row.number}\nevent: {row.kind}\ndata: {data}\n\n"
