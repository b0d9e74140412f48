"""What keeps the page of a study up to date: new lines of its event log, and its parts rendered again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from bln_search.storage.events import EventRecord
from bln_search.storage.ledger import Ledger
from service.context import AppContext, ContextDep
from service.event_stream import AfterEvent, LastEventId, make_event_stream_response
from service.pages.rendering.templates import make_viewer_variables, render_fragment_response, render_fragment_text
from service.pages.study_head import get_study_item, study_head_variables
from service.security import ReadableStudy
from service.serializers import serialize_event, serialize_study

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_CHANGED_PARTS = {"epoch": ("curves",), "trial_finished": ("cells", "leading", "answer"), "study_changed": ("details",)}
_OTHERWISE_CHANGED = ("cells",)
"""Parts of the page that an event changes, beside its head."""


@router.get("/live")
async def stream_live_events(
    study: ReadableStudy, context: ContextDep, after: AfterEvent = 0, last_event_id: LastEventId = None
) -> Response:
    """A stream of new events: lines for the log, and the names of the parts that they change."""

    async def render(records: Sequence[EventRecord]) -> str:
        return await run_in_threadpool(_format_stream_message, context, records)

    return make_event_stream_response(context, study, after, last_event_id, render)


@router.get("/parts/head")
def study_head_fragment(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present state, progress and actions."""
    listed = get_study_item(context, study.id)
    return render_fragment_response("parts/head.html", **study_head_variables(context, listed, study.bearer))


@router.get("/parts/details")
def study_details_fragment(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present title, tags, priority and notes, which a script saves and reads again."""
    listed = serialize_study(get_study_item(context, study.id))
    return render_fragment_response("parts/study_fields.html", study=listed, viewer=make_viewer_variables(study.bearer))


def log_line_variables(ledger: Ledger, records: Sequence[EventRecord]) -> dict[str, Any]:
    """Return the template variables of lines of the log."""
    trial_ids = sorted({record.trial_id for record in records if record.trial_id})
    return {
        "events": [serialize_event(record, with_accounts=False) for record in records],
        "names": ledger.trial_lists.read_labels_by_trial(trial_ids),
    }


def _format_stream_message(context: AppContext, records: Sequence[EventRecord]) -> str:
    """Return a message of the stream."""
    changed = {part for record in records for part in _CHANGED_PARTS.get(record.kind, _OTHERWISE_CHANGED)}
    lines = render_fragment_text("parts/log.html", **log_line_variables(context.ledger, records))
    data = json.dumps({"lines": lines, "parts": sorted(changed)}, separators=(",", ":"))
    return f"id: {records[-1].number}\ndata: {data}\n\n"
