"""The event log of a study: as a list, or as a stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from bln_search.storage.events import EventRecord
from bln_search.storage.tokens import TokenKind
from service.api_route import ApiRoute
from service.context import ContextDep
from service.event_stream import AfterEvent, LastEventId, make_event_stream_response
from service.schemas.results import EventList
from service.security import ReadableStudy
from service.serializers import serialize_event

router = APIRouter(prefix="/studies/{study_id:number}", tags=["events"], route_class=ApiRoute)


@router.get(
    "/events",
    operation_id="list_events",
    response_model=EventList,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def list_events(
    study: ReadableStudy,
    context: ContextDep,
    after: AfterEvent = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="of the JSON list")] = 500,
    trial: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="of the JSON list: only events of the trial with this id")
    ] = None,
    accept: Annotated[str | None, Header(max_length=500, include_in_schema=False)] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Events of a study, oldest first: a JSON list, or with `Accept: text/event-stream` a stream of new events.

    The stream starts after the event `Last-Event-ID` if that header is sent, else after `after`. It sends every event
    exactly once and ends with the study.
    """
    with_accounts = study.bearer.kind is not TokenKind.SHARE
    if accept is not None and "text/event-stream" in accept:
        render = partial(_render_events_as_json, with_accounts=with_accounts)
        return make_event_stream_response(context, study, after, last_event_id, render)
    list_records = partial(context.ledger.events.list_events, study.id, after, limit, trial_id=trial)
    records = await run_in_threadpool(list_records)
    event_list = EventList(
        events=[serialize_event(record, with_accounts=with_accounts) for record in records],
        last=records[-1].number if records else after,
    )
    return JSONResponse(event_list.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


async def _render_events_as_json(records: Sequence[EventRecord], *, with_accounts: bool) -> str:
    return "".join(_format_server_sent_event(record, with_accounts=with_accounts) for record in records)


def _format_server_sent_event(record: EventRecord, *, with_accounts: bool) -> str:
    data = json.dumps(
        serialize_event(record, with_accounts=with_accounts).model_dump(mode="json"), separators=(",", ":")
    )
    return f"id: {record.number}\nevent: {record.kind}\ndata: {data}\n\n"
