"""The ranked table, filtered and sorted; the address keeps it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import Candidate, LeaderboardRow
from bln_search.ranking.statistics.intervals import Interval
from bln_search.reports.comparison import analysis_lines, groups_of
from bln_search.reports.formatting import over_seeds
from service.context import Here
from service.leaderboard_cache import Board
from service.leaderboard_filters import chosen_rows
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.paging import Cursor, cursor_after, read_page
from service.routes.results import ArmFilter, BoardSort
from service.security import Seen

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_ROWS = 50


@dataclass(frozen=True)
class ShownRow:
    """A row of the table with the interval of each figure.

    first: whether it shares the first place; p: by its seeds alone, where rows were not compared. compared: what the
    comparison of all rows found.
    """

    row: LeaderboardRow
    first: bool
    p: float | None
    figures: dict[str, Interval | None]
    compared: ComparedRow | None = None


def shown_row(row: LeaderboardRow, board: Board, groups: Mapping[Candidate, ComparedRow]) -> ShownRow:
    """A row as pages show it. groups: rows that were compared, none before the study is complete."""
    figures: dict[str, Interval | None] = {}
    for split in (Split.VALIDATION, Split.TEST):
        measured = row.figures.get(split)
        for metric in ("loss", "accuracy"):
            summary = None if measured is None else getattr(measured, metric)
            figures[f"{split.value}_{metric}"] = over_seeds(summary, row.seeds)
    if groups:
        compared = groups.get(row.candidate)
        return ShownRow(row, compared is not None and compared.shares_first, None, figures, compared)
    p = (board.sharing_first or {}).get(row.candidate) if row.rank is not None else None
    return ShownRow(row, p is not None, p, figures)


@router.get("/leaderboard")
def leaderboard(
    request: Request,
    study: Seen,
    context: Here,
    method: Annotated[Method | Literal[""], Query()] = "",
    arm: ArmFilter = None,
    batch_size: Annotated[str, Query(max_length=7, pattern="^[0-9]*$")] = "",
    estimate: Annotated[PopulationEstimate | Literal[""], Query()] = "",
    state: Annotated[EvaluationState | Literal[""], Query()] = "",
    on: Annotated[Literal["", "validation", "test"], Query()] = "",
    sort: BoardSort = "rank",
    cursor: Cursor = None,
) -> HTMLResponse:
    """A page of the table. Ranks are those of the whole table, whatever is filtered."""
    filters: dict[str, Any] = {
        "method": method or None,
        "arm": arm or None,
        "batch_size": int(batch_size) if batch_size else None,
        "estimate": estimate or None,
        "state": state or None,
    }
    about = {"page": "leaderboard", "study": study.id, "on": on, **filters}
    asked = read_page(cursor, _ROWS, sort, about)
    board = context.boards.get(study.id, study.results, Split(on) if on else None, patient=study.goes_on)
    rows = chosen_rows(board, filters, sort)
    start = 0 if asked.after is None else int(asked.after[0])
    whole = board.leaderboard.rows
    kept = context.analyses.get(study.id)
    analysis = kept if on in ("", board.spec.ranking.split.value) else None
    groups = groups_of(analysis)
    return page(
        request,
        "leaderboard.html",
        visitor=visitor_of(study.bearer),
        study={"id": study.id, "name": study.name, "title": board.spec.title, "state": study.state},
        per_layer=kept is not None and bool(kept.layers),
        board=board.leaderboard,
        seeds=len(board.spec.seeds),
        shared=sum(one.shares_first for one in groups.values()) or len(board.sharing_first or ()),
        rows=[shown_row(row, board, groups) for row in rows[start : start + _ROWS]],
        comparison=None if analysis is None else analysis.comparison,
        words=[] if analysis is None else analysis_lines(analysis),
        start=start,
        found=len(rows),
        total=len(whole),
        following=cursor_after((start + _ROWS,), sort, about) if start + _ROWS < len(rows) else None,
        filters={name: value for name, value in {**filters, "on": on}.items() if value},
        sort=sort,
        choices={
            "method": sorted({one.method.value for one in board.spec.arms}),
            "arm": sorted({row.arm for row in whole}),
            "batch_size": sorted({row.batch_size for row in whole}),
            "estimate": sorted({row.estimate.value for row in whole if row.estimate}),
            "state": sorted({row.state.value for row in whole}),
        },
        columns={
            "arm": len({row.arm for row in whole}) > 1,
            "point": any(row.point for row in whole),
            "batch_size": len({row.batch_size for row in whole}) > 1,
        },
    )
