"""Page with the list of studies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.states import StudyState
from bln_search.reports.formatting import compared_rows, over_seeds
from service.context import ContextDep
from service.http.pagination import Cursor, decode_cursor, encode_cursor
from service.pages.rendering.templates import page, render_fragment
from service.pages.rendering.viewer import viewer_context
from service.routes.studies import SORT_KEYS, StudySort
from service.security import Reader, visible_owner
from service.serializers import serialize_study

router = APIRouter(include_in_schema=False)
_PAGE_SIZE = 25
_MAX_ID = 2**31


@router.get("/studies")
def studies_page(
    request: Request,
    context: ContextDep,
    reader: Reader,
    state: Annotated[list[StudyState | Literal[""]] | None, Query(max_length=10)] = None,
    name: Annotated[str, Query(max_length=64)] = "",
    sort: StudySort = "-created",
    cursor: Cursor = None,
) -> HTMLResponse:
    """A page of your studies; for an admin, of all accounts."""
    states = sorted(selected.value for selected in state or () if selected)
    owner = visible_owner(reader)
    pattern = name.strip().lower().replace("\0", "?")  # Postgres rejects NUL; no name contains either character
    list_query: dict[str, Any] = {"page": "studies", "owner": owner, "state": states, "name": pattern}
    key_types = SORT_KEYS[sort.removeprefix("-")]
    page_query = decode_cursor(cursor, _PAGE_SIZE, sort, list_query, key_types)
    items = context.ledger.listing.list_studies(page_query, owner=owner, states=states, name=pattern or None)
    next_cursor = None
    if len(items) > _PAGE_SIZE:
        last = items[_PAGE_SIZE - 1]
        value = (last.id,) if len(key_types) == 1 else (getattr(last, sort.removeprefix("-")), last.id)
        next_cursor = encode_cursor(value, sort, list_query)
    return page(
        request,
        "studies.html",
        viewer=viewer_context(reader),
        studies=[serialize_study(item) for item in items[:_PAGE_SIZE]],
        any=bool(items) or context.ledger.listing.count_studies(owner) > 0,
        states=list(StudyState),
        chosen=states,
        name=pattern,
        sort=sort,
        first=cursor is None,
        next_cursor=next_cursor,
    )


@router.get("/studies/best")
def best_configurations(
    context: ContextDep, reader: Reader, study: Annotated[list[int], Query(max_length=_PAGE_SIZE)]
) -> HTMLResponse:
    """The best configuration of each of these studies; a script requests it after the list is shown."""
    study_ids = [study_id for study_id in study if 0 < study_id < _MAX_ID]
    page_query = decode_cursor(None, _PAGE_SIZE, "-created", {})
    items = context.ledger.listing.list_studies(page_query, owner=visible_owner(reader), ids=study_ids)
    rows = []
    for item in items:
        is_running = item.state == StudyState.RUNNING
        board = context.leaderboards.get(item.id, item.results, allow_stale=is_running) if item.results else None
        row = board.leaderboard.best if board else None
        figures = row.metrics.get(board.leaderboard.ranked_on) if row and board else None
        loss = None if figures is None or row is None else over_seeds(figures.loss, row.seeds)
        compared = compared_rows(context.analyses.get(item.id)) if board else {}
        top_group_size = sum(compared_row.in_top_group for compared_row in compared.values()) or len(
            (board and board.top_group_by_seeds) or ()
        )
        rows.append((item.id, row, loss, top_group_size))
    return render_fragment("parts/best.html", rows=rows)
