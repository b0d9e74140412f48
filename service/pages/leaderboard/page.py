"""Page of the leaderboard; its link contains filters, order, columns, page and chosen rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.reports.formatting import compared_rows_by_key
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.sentences.significance import row_verdicts_text
from bln_search.specs.sections.space import format_parameter_value_short
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext, ContextDep
from service.pages.leaderboard.choices import make_leaderboard_filter_choices
from service.pages.leaderboard.columns import (
    LeaderboardColumn,
    choose_shown_columns,
    group_columns_by_condition,
    list_available_columns,
)
from service.pages.leaderboard.difference import find_chosen_rows_difference
from service.pages.leaderboard.interval_plot import IntervalScale, find_interval_scale, render_interval_svg
from service.pages.leaderboard.paging import make_paging
from service.pages.leaderboard.query import LeaderboardQuery, RowChoice, SplitChoice, parse_leaderboard_query
from service.pages.leaderboard.rows import (
    RowWithConfidenceIntervals,
    decimals_by_metric,
    format_row_key,
    make_row_with_confidence_intervals,
    significantly_worse_row_keys,
)
from service.pages.rendering.templates import render_fragment_response, render_page_response
from service.pages.rendering.viewer import make_viewer_variables
from service.pages.study_head import study_title_variables
from service.results.equal_rows import DistinctRows, EqualRowsGroup, make_distinct_rows
from service.results.leaderboard_filters import filter_and_sort_rows
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
PageQuery = Annotated[LeaderboardQuery, Depends(parse_leaderboard_query)]
_PAGE_SIZE = 50


@dataclass(frozen=True)
class LeaderboardTableRow:
    """A line of the table.

    Attributes:
        shown: The row with its figures.
        key: Its name in links.
        batch_sizes: Mini-batch sizes of the rows that equal it, in increasing order.
        recommended: The study recommends the row.
        worse: Its mean loss is significantly higher than the best row's.
        parameters: Text by name of the parameters of its point.
        picture: The confidence interval on the scale of the page.
        pinned: Where else the row is, if it is shown above the others; empty for a row at its place.
    """

    shown: RowWithConfidenceIntervals
    key: str
    batch_sizes: tuple[int, ...]
    recommended: bool
    worse: bool
    parameters: dict[str, str]
    picture: Markup
    pinned: str = ""


class _LeaderboardTable:
    """Makes the lines of one page of a leaderboard."""

    def __init__(self, board: CachedLeaderboard, analysis: Analysis | None) -> None:
        self._board = board
        self.groups: dict[RowKey, ComparedRow] = compared_rows_by_key(analysis)
        self._worse = significantly_worse_row_keys(None if analysis is None else analysis.comparison)
        recommendation = None if analysis is None else analysis.recommendation
        self._recommended_key = None if recommendation is None else recommendation.key
        self._loss = f"{board.leaderboard.ranked_on}_loss"

    def make_recommended_and_other_rows(
        self, groups: list[EqualRowsGroup], filtered: Sequence[LeaderboardRow]
    ) -> tuple[LeaderboardTableRow | None, list[LeaderboardTableRow]]:
        """Return the line of the recommended row, and a line for each row, all on one scale.

        The recommended row has no line of its own where it is the first of the others.

        Args:
            groups: The rows of the page.
            filtered: The rows of all pages, which match the filter.
        """
        recommended = self._find_recommended_group()
        shown = [(group, self._make_row_with_confidence_intervals(group.row)) for group in groups]
        first = (
            None if recommended is None else (recommended, self._make_row_with_confidence_intervals(recommended.row))
        )
        best = self._board.leaderboard.best_row
        reference = None if best is None else best.metrics[self._board.leaderboard.ranked_on].loss.mean
        everything = [*shown, *([] if first is None else [first])]
        scale = find_interval_scale([display.figures[self._loss] for _, display in everything], reference)
        lines = [self._make_table_row(group, display, scale) for group, display in shown]
        if first is None or (lines and lines[0].recommended):
            return None, lines
        place = _find_place_of_pinned_row(first[0], lines, filtered)
        return replace(self._make_table_row(*first, scale), pinned=place), lines

    def _find_recommended_group(self) -> EqualRowsGroup | None:
        key = self._recommended_key
        rows = (
            []
            if key is None
            else [row for row in self._board.leaderboard.rows if row.key.with_batch_size(key.batch_size) == key]
        )
        equal = _join_equal_rows(self._board, rows, collapse=True)
        return next((group for group in equal.list_groups() if key is not None and group.contains(key)), None)

    def _make_row_with_confidence_intervals(self, row: LeaderboardRow) -> RowWithConfidenceIntervals:
        return make_row_with_confidence_intervals(row, self._board, self.groups)

    def _make_table_row(
        self, group: EqualRowsGroup, shown: RowWithConfidenceIntervals, scale: IntervalScale | None
    ) -> LeaderboardTableRow:
        row = group.row
        return LeaderboardTableRow(
            shown=shown,
            key=format_row_key(row.key),
            batch_sizes=group.batch_sizes,
            recommended=self._recommended_key is not None and group.contains(self._recommended_key),
            worse=row.key in self._worse,
            parameters={
                name: format_parameter_value_short(value, row.point_digits)
                for name, value in self._board.point_parameter_parser(row.point).items()
            },
            picture=render_interval_svg(shown.figures[self._loss], scale),
        )


def _find_place_of_pinned_row(
    group: EqualRowsGroup, lines: Sequence[LeaderboardTableRow], filtered: Sequence[LeaderboardRow]
) -> str:
    if any(line.recommended for line in lines):
        return "also at its rank below"
    return "on another page" if any(group.contains(row.key) for row in filtered) else "outside the filter"


def _shows_intervals(rows: Sequence[LeaderboardTableRow], columns: Sequence[LeaderboardColumn]) -> bool:
    figures = (row.shown.figures.get(column.key) for row in rows for column in columns)
    return any(figure is not None and figure.half is not None for figure in figures)


def _join_equal_rows(board: CachedLeaderboard, rows: Sequence[LeaderboardRow], *, collapse: bool) -> DistinctRows:
    per_slot = board.spec.has_populations_per_slot
    return make_distinct_rows(rows, board.leaderboard.ranked_on, collapse=collapse, per_slot=per_slot)


@router.get("/leaderboard")
def leaderboard_page(request: Request, study: ReadableStudy, context: ContextDep, query: PageQuery) -> HTMLResponse:
    """A page of the leaderboard. Ranks refer to the whole leaderboard, whatever the filter."""
    board, cached, analysis = _read_leaderboard_and_analyses(context, study, query.on)
    leaderboard = board.leaderboard
    rows = filter_and_sort_rows(board, query.filters, query.sort)
    distinct = _join_equal_rows(board, rows, collapse=query.collapse)
    position = make_paging(query.page, _PAGE_SIZE, len(distinct))
    table = _LeaderboardTable(board, analysis)
    pinned, lines = table.make_recommended_and_other_rows(
        distinct.list_groups(position.start, position.start + _PAGE_SIZE), rows
    )
    shown = [*lines, *([] if pinned is None else [pinned])]
    choices = make_leaderboard_filter_choices(board)
    comparison = None if analysis is None else analysis.comparison
    available = list_available_columns(
        leaderboard, choices.parameters, comparison, loss=board.spec.loss_description.text
    )
    columns = choose_shown_columns(available, query.columns, query.filters["condition"])
    return render_page_response(
        request,
        "leaderboard.html",
        viewer=make_viewer_variables(study.bearer),
        study=study_title_variables(context, study),
        per_layer=cached is not None and bool(cached.layers),
        board=leaderboard,
        has_accuracy=leaderboard.has_accuracy,
        seeds=len(board.spec.all_seeds),
        verdicts=None if comparison is None else row_verdicts_text(comparison),
        pinned=pinned,
        rows=lines,
        comparison=comparison,
        sentences=[] if analysis is None else analysis_sentences(analysis),
        difference=find_chosen_rows_difference(board, analysis, query.chosen),
        found=len(rows),
        total=len(leaderboard.rows),
        collapsed=len(rows) - len(distinct),
        paging=position,
        query=query,
        filters=choices,
        available=available,
        columns=columns,
        column_groups=group_columns_by_condition(columns),
        shows_intervals=_shows_intervals(shown, columns),
        decimals=decimals_by_metric((line.shown for line in shown), leaderboard),
    )


@router.get("/parts/difference")
def difference_fragment(
    study: ReadableStudy, context: ContextDep, row: RowChoice = None, on: SplitChoice = ""
) -> HTMLResponse:
    """The difference of two rows, as a part of the page."""
    board, _, analysis = _read_leaderboard_and_analyses(context, study, on)
    difference = find_chosen_rows_difference(board, analysis, tuple(dict.fromkeys(row or ())))
    return render_fragment_response(
        "parts/row_difference.html",
        difference=difference,
        has_accuracy=board.leaderboard.has_accuracy,
        study={"id": study.id},
    )


def _read_leaderboard_and_analyses(
    context: AppContext, study: StudyAccess, on: str
) -> tuple[CachedLeaderboard, Analysis | None, Analysis | None]:
    """Return the leaderboard, the study's analysis, and the same if it is of the split that ranks."""
    board = context.leaderboards.get_or_compute(
        study.id, study.results, Split(on) if on else None, allow_stale=study.is_queued_or_running
    )
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    ranks_as_the_study = on in ("", board.spec.ranking.split.value)
    return board, analysis, analysis if ranks_as_the_study else None
