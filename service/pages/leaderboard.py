"""Page of the leaderboard; its URL contains filter and order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.blend import ESTIMATE_PATTERN
from bln_search.core.configuration import Method
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import compared_rows, confidence_interval_over_seeds
from bln_search.reports.leaderboard_columns import MetricColumn, metric_columns
from bln_search.reports.sentences.analysis import analysis_sentences
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import ContextDep
from service.http.pagination import Cursor, decode_cursor, encode_cursor
from service.pages.rendering.templates import render_page
from service.pages.rendering.viewer import viewer_context
from service.results.leaderboard_filters import filter_rows
from service.routes.results import ArmFilter, LeaderboardSort
from service.security import ReadableStudy

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
EstimateChoice = Annotated[str, Query(max_length=64, pattern=f"^$|{ESTIMATE_PATTERN}")]
"""Label of a population estimate; empty for any."""
_PAGE_SIZE = 50


@dataclass(frozen=True)
class DisplayRow:
    """A row of the leaderboard with the confidence interval of each mean.

    Attributes:
        row: The row.
        first: The row does not differ significantly from the best row.
        p: p-value of that test on the losses by seed; None after the comparison of all rows.
        figures: Confidence interval by the sort key of the column.
        compared: The row's part of the comparison of all rows; None before the study is complete.
    """

    row: LeaderboardRow
    first: bool
    p: float | None
    figures: dict[str, ConfidenceInterval | None]
    compared: ComparedRow | None = None


def _shown_columns(board: Leaderboard) -> list[MetricColumn]:
    """The metrics of the table: those on both splits, and under conditions those on the split that ranks."""
    return metric_columns(board, condition_splits=(board.ranked_on,))


def _sort_key(column: MetricColumn) -> str:
    """The value of `sort` for a column."""
    return f"{column.split}_{column.metric}" + (f":{column.condition}" if column.condition else "")


def display_row(row: LeaderboardRow, board: CachedLeaderboard, groups: Mapping[RowKey, ComparedRow]) -> DisplayRow:
    """Return a row for the template.

    Args:
        row: The row.
        board: The leaderboard.
        groups: The compared rows; empty before the study is complete.
    """
    figures = {
        _sort_key(column): confidence_interval_over_seeds(column.value(row), row.seeds)
        for column in _shown_columns(board.leaderboard)
    }
    if groups:
        compared = groups.get(row.key)
        return DisplayRow(row, compared is not None and compared.in_top_group, None, figures, compared)
    p = (board.top_group_by_seeds or {}).get(row.key) if row.rank is not None else None
    return DisplayRow(row, p is not None, p, figures)


@router.get("/leaderboard")
def leaderboard_page(
    request: Request,
    study: ReadableStudy,
    context: ContextDep,
    method: Annotated[Method | Literal[""], Query()] = "",
    arm: ArmFilter = None,
    batch_size: Annotated[str, Query(max_length=7, pattern="^[0-9]*$")] = "",
    estimate: EstimateChoice = "",
    state: Annotated[EvaluationState | Literal[""], Query()] = "",
    on: Annotated[Literal["", "validation", "test"], Query()] = "",
    sort: LeaderboardSort = "rank",
    cursor: Cursor = None,
) -> HTMLResponse:
    """A page of the leaderboard. Ranks refer to the whole leaderboard, whatever the filter."""
    filters: dict[str, Any] = {
        "method": method or None,
        "arm": arm or None,
        "batch_size": int(batch_size) if batch_size else None,
        "estimate": estimate or None,
        "state": state or None,
    }
    list_query = {"page": "leaderboard", "study": study.id, "on": on, **filters}
    page_query = decode_cursor(cursor, _PAGE_SIZE, sort, list_query)
    board = context.leaderboards.get(study.id, study.results, Split(on) if on else None, allow_stale=study.is_active)
    rows = filter_rows(board, filters, sort)
    start = 0 if page_query.after is None else int(page_query.after[0])
    all_rows = board.leaderboard.rows
    cached = context.analyses.get(study.id)
    analysis = cached if on in ("", board.spec.ranking.split.value) else None
    groups = compared_rows(analysis)
    return render_page(
        request,
        "leaderboard.html",
        viewer=viewer_context(study.bearer),
        study={"id": study.id, "name": study.name, "title": board.spec.title, "state": study.state},
        per_layer=cached is not None and bool(cached.layers),
        board=board.leaderboard,
        seeds=len(board.spec.seeds),
        top_group_size=sum(row.in_top_group for row in groups.values()) or len(board.top_group_by_seeds or ()),
        rows=[display_row(row, board, groups) for row in rows[start : start + _PAGE_SIZE]],
        comparison=None if analysis is None else analysis.comparison,
        sentences=[] if analysis is None else analysis_sentences(analysis),
        start=start,
        found=len(rows),
        total=len(all_rows),
        next_cursor=encode_cursor((start + _PAGE_SIZE,), sort, list_query) if start + _PAGE_SIZE < len(rows) else None,
        filters={name: value for name, value in {**filters, "on": on}.items() if value},
        sort=sort,
        choices={
            "method": sorted({spec.method.value for spec in board.spec.arms}),
            "arm": sorted({row.arm for row in all_rows}),
            "batch_size": sorted({row.batch_size for row in all_rows}),
            "estimate": sorted({str(row.estimate) for row in all_rows if row.estimate}),
            "state": sorted({row.state.value for row in all_rows}),
        },
        condition_columns=[
            {"name": column.heading, "key": _sort_key(column), "metric": column.metric}
            for column in _shown_columns(board.leaderboard)
            if column.condition
        ],
        columns={
            "arm": len({row.arm for row in all_rows}) > 1,
            "point": any(row.point for row in all_rows),
            "batch_size": len({row.batch_size for row in all_rows}) > 1,
        },
    )
