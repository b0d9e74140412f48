"""What happens in a study, as it happens."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from bln_search.core.states import StudyState
from bln_search.storage.access import is_valid
from bln_search.storage.browse import list_events, study_standing
from bln_search.storage.tables import EventRow
from service.context import Context, Here
from service.problems import RefusedError
from service.schemas import EventList
from service.security import OwnStudy, Seen
from service.views import event_view

router = APIRouter(prefix="/studies/{study_id:number}", tags=["events"])
_POLL = 0.25
_KEEP_ALIVE = 10.0
_CHECK = 2.0
"""Seconds after which a stream notices that its token has ended."""

_STREAMS = 64
"""Streams of one account."""

_AT_ONCE = 200
_OVER = (StudyState.COMPLETE, StudyState.CANCELLED, StudyState.FAILED)
_LARGEST = 2**31 - 1


@router.get(
    "/events",
    operation_id="list_events",
    response_model=EventList,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
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
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        _count_streams(context, study.bearer.account)
        stream = _stream(request, context, study, start)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
    rows = await run_in_threadpool(list_events, context.engine, study.id, after, limit)
    shown = EventList(events=[event_view(row) for row in rows], last=rows[-1].number if rows else after)
    return JSONResponse(shown.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


def _count_streams(context: Context, account: str) -> None:
    """Raise RefusedError (429) where the account has too many streams open."""
    if context.streams[account] >= _STREAMS:
        detail = f"{_STREAMS} streams are open already; close one"
        raise RefusedError(429, "too-many-streams", detail, headers={"Retry-After": "5"})


async def _stream(request: Request, context: Context, study: OwnStudy, last: int) -> AsyncIterator[str]:
    """What happens, while the client is there and its token holds."""
    context.streams[study.bearer.account] += 1
    try:
        async for text in _texts(request, context, study, last):
            yield text
    finally:
        context.streams[study.bearer.account] -= 1


async def _texts(request: Request, context: Context, study: OwnStudy, last: int) -> AsyncIterator[str]:
    """Everything after `last`, then what is new, until the study is over or the client gone."""
    yield "retry: 1000\n\n"
    study_id = study.id
    spoke = checked = time.monotonic()
    while not context.closing and not await request.is_disconnected():
        if time.monotonic() - checked > _CHECK:
            checked = time.monotonic()
            if not await run_in_threadpool(is_valid, context.engine, study.bearer.token_id):
                return
        found = await run_in_threadpool(study_standing, context.engine, study_id)
        rows = await run_in_threadpool(list_events, context.engine, study_id, last, _AT_ONCE)
        for row in rows:
            yield _written(row)
            last = row.number
        if rows:
            spoke = time.monotonic()
            continue
        if found is None or found[3] in _OVER:
            yield "event: end\ndata: {}\n\n"
            return
        if time.monotonic() - spoke > _KEEP_ALIVE:
            yield ": still here\n\n"
            spoke = time.monotonic()
        await asyncio.sleep(_POLL)


def _written(row: EventRow) -> str:
    data = json.dumps(event_view(row).model_dump(mode="json"), separators=(",", ":"))
    return f"id: {row.number}\nevent: {row.kind}\ndata: {data}\n\n"
