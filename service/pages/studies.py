"""The list of studies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.states import StudyState
from bln_search.reports.comparison import groups_of
from bln_search.reports.formatting import over_seeds
from bln_search.storage.browse import list_studies
from bln_search.storage.overview import count_studies
from service.context import Here
from service.pages.render import fragment, page
from service.pages.viewer import visitor_of
from service.paging import Cursor, cursor_after, read_page
from service.routes.studies import SORT_KEYS, StudySort
from service.security import Reader, visible_owner
from service.views import study_view

router = APIRouter(include_in_schema=False)
_ROWS = 25
_LARGEST = 2**31


@router.get("/studies")
def studies(
    request: Request,
    context: Here,
    reader: Reader,
    state: Annotated[list[StudyState | Literal[""]] | None, Query(max_length=10)] = None,
    name: Annotated[str, Query(max_length=64)] = "",
    sort: StudySort = "-created",
    cursor: Cursor = None,
) -> HTMLResponse:
    """Your studies, or, for an admin, everybody's: a page of them."""
    states = sorted(one.value for one in state or () if one)
    owner = visible_owner(reader)
    wanted = name.strip().lower().replace("\0", "?")  # Postgres takes no text with the first; no name has either
    about: dict[str, Any] = {"page": "studies", "owner": owner, "state": states, "name": wanted}
    key = SORT_KEYS[sort.removeprefix("-")]
    asked = read_page(cursor, _ROWS, sort, about, key)
    lines = list_studies(context.engine, asked, owner=owner, states=states, name=wanted or None)
    following = None
    if len(lines) > _ROWS:
        last = lines[_ROWS - 1]
        value = (last.id,) if len(key) == 1 else (getattr(last, sort.removeprefix("-")), last.id)
        following = cursor_after(value, sort, about)
    return page(
        request,
        "studies.html",
        visitor=visitor_of(reader),
        studies=[study_view(line) for line in lines[:_ROWS]],
        any=bool(lines) or count_studies(context.engine, owner) > 0,
        states=list(StudyState),
        chosen=states,
        name=wanted,
        sort=sort,
        first=cursor is None,
        following=following,
    )


@router.get("/studies/best")
def best(context: Here, reader: Reader, study: Annotated[list[int], Query(max_length=_ROWS)]) -> HTMLResponse:
    """The best configuration of each of these studies: asked for after the list is shown."""
    known = [one for one in study if 0 < one < _LARGEST]
    asked = read_page(None, _ROWS, "-created", {})
    lines = list_studies(context.engine, asked, owner=visible_owner(reader), numbers=known)
    rows = []
    for line in lines:
        goes_on = line.state == StudyState.RUNNING
        board = context.boards.get(line.id, line.results, patient=goes_on) if line.results else None
        row = board.leaderboard.best if board else None
        figures = row.figures.get(board.leaderboard.ranked_on) if row and board else None
        loss = None if figures is None or row is None else over_seeds(figures.loss, row.seeds)
        compared = groups_of(context.analyses.get(line.id)) if board else {}
        shared = sum(one.shares_first for one in compared.values()) or len((board and board.sharing_first) or ())
        rows.append((line.id, row, loss, shared))
    return fragment("parts/best.html", rows=rows)
