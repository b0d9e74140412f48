"""A study: where it stands, live."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import Engine

from bln_search.ranking.analysis import Analysis
from bln_search.reports.comparison import groups_of
from bln_search.specs.space import written_label
from bln_search.storage.browse import find_study_line
from bln_search.storage.overview import Cell, cells, last_events, states_by_arm, trial_names
from service.context import Context, Here
from service.pages.leaderboard import shown_row
from service.pages.render import fragment, page
from service.pages.viewer import visitor_of
from service.problems import RefusedError
from service.security import OwnStudy, Seen
from service.views import event_view, study_view

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_MOST_CELLS = 600
_EVENTS = 50
_LEADING = 8
_MOST_AT_ONCE = 200
"""Trials with a result of a study whose table is made before the page is shown."""


@router.get("")
def study(request: Request, seen: Seen, context: Here) -> HTMLResponse:
    """Everything of a study at a glance; a script keeps it up to date."""
    found = find_study_line(context.engine, seen.id)
    if found is None:
        raise RefusedError(404, "not-found", f"there is no study {seen.id}")
    line, spec = found
    analysis = context.analyses.get(seen.id)
    events = [event_view(row) for row in last_events(context.engine, seen.id, _EVENTS)]
    return page(
        request,
        "study.html",
        charts=True,
        visitor=visitor_of(seen.bearer),
        study=study_view(line),
        per_layer=analysis is not None and bool(analysis.layers),
        spec=json.dumps(json.loads(spec), indent=1, ensure_ascii=False),
        last=line.last_event,
        events=events,
        names=trial_names(context.engine, sorted({one.trial_id for one in events if one.trial_id})),
        **_cells(context.engine, seen.id),
        **leading(context, seen, line.results, analysis, at_once=line.results > _MOST_AT_ONCE),
    )


@router.get("/parts/leading")
def leading_part(seen: Seen, context: Here) -> HTMLResponse:
    """The first rows of the table as they are now."""
    analysis = context.analyses.get(seen.id)
    return fragment("parts/leading.html", study={"id": seen.id}, **leading(context, seen, seen.results, analysis))


@router.get("/parts/cells")
def cells_part(seen: Seen, context: Here) -> HTMLResponse:
    """The trials as they are now."""
    return fragment("parts/cells.html", **_cells(context.engine, seen.id))


def leading(
    context: Context, study: OwnStudy, results: int, analysis: Analysis | None, *, at_once: bool = False
) -> dict[str, Any]:
    """The first rows of the table; at_once: only of one that is there already, a script asks for the rest."""
    board = None
    if results:
        board = context.boards.kept(study.id) if at_once else None
        board = board or (None if at_once else context.boards.get(study.id, results, patient=study.goes_on))
    groups = groups_of(analysis) if board else {}
    rows = [shown_row(row, board, groups) for row in board.leaderboard.rows[:_LEADING]] if board else []
    return {
        "rows": rows,
        "later": at_once and (board is None or board.results != results),
        "total": len(board.leaderboard.rows) if board else 0,
        "arms": len({(row.arm, row.point) for row in board.leaderboard.rows}) if board else 0,
        "ranked_on": board.leaderboard.ranked_on.value if board else None,
        "warning": board.leaderboard.warning if board else None,
    }


def _cells(engine: Engine, study_id: int) -> dict[str, Any]:
    """Trials by arm and point, a column a seed; of large studies how many stand where."""
    found = cells(engine, study_id, _MOST_CELLS)
    if found is None:
        return {"grid": None, "seeds": [], "counts": states_by_arm(engine, study_id)}
    seeds = sorted({one.seed for one in found})
    grid: dict[tuple[str, str], dict[int, Cell]] = {}
    for one in found:
        grid.setdefault((one.arm, one.point), {})[one.seed] = one
    labelled = [(arm, written_label(point), row) for (arm, point), row in grid.items()]
    return {"grid": labelled, "seeds": seeds, "counts": {}}
