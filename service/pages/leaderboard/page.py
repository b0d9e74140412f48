"""Page of the leaderboard; its link contains filters, order, columns, page and chosen rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.sentences.leaderboard import format_sentence
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
from service.pages.leaderboard.interval_plot import IntervalScale, find_interval_scale, render_interval_svg
from service.pages.leaderboard.query import (
    LeaderboardQuery,
    RowChoice,
    SplitChoice,
    make_paging,
    parse_leaderboard_query,
)
from service.pages.leaderboard.rows import (
    LeaderboardTableRow,
    RowWithConfidenceIntervals,
    decimals_by_metric,
    find_chosen_rows_difference,
    format_row_key,
    make_row_with_confidence_intervals,
)
from service.pages.rendering.templates import render_fragment_response
from service.pages.study_head import render_study_page
from service.results.equal_rows import DistinctRows, make_distinct_rows
from service.results.leaderboard_filters import filter_and_sort_rows
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
PageQuery = Annotated[LeaderboardQuery, Depends(parse_leaderboard_query)]
_PAGE_SIZE = 50


class _LeaderboardTable:
    """Makes the lines of one page of a leaderboard.

    Args:
        board: The leaderboard.
        analysis: Its analysis; None without one.
        distinct: The rows of all pages that match the filter.
    """

    def __init__(self, board: CachedLeaderboard, analysis: Analysis | None, distinct: DistinctRows) -> None:
        self._board, self._distinct = board, distinct
        self._view = LeaderboardView.of_analysis(board.leaderboard, analysis, distinct.batch_sizes)
        self._loss = f"{board.leaderboard.ranked_on}_loss"

    def make_recommended_and_other_rows(
        self, start: int, filtered: Sequence[LeaderboardRow]
    ) -> tuple[LeaderboardTableRow | None, list[LeaderboardTableRow]]:
        """Return the line of the recommended row, and a line for each row of a page, all on one scale.

        The recommended row has no line of its own where it is the first of the others.

        Args:
            start: Position of the first row of the page.
            filtered: The rows of all pages, which match the filter, before equal ones are joined.
        """
        shown = [
            make_row_with_confidence_intervals(row, self._view)
            for row in self._distinct.rows[start : start + _PAGE_SIZE]
        ]
        recommended = self._find_recommended_row()
        best = self._board.leaderboard.best_row
        reference = None if best is None else best.metrics[self._board.leaderboard.ranked_on].loss.mean
        everything = [*shown, *([] if recommended is None else [recommended])]
        scale = find_interval_scale([display.figures[self._loss] for display in everything], reference)
        lines = [self._make_table_row(display, scale) for display in shown]
        if recommended is None or (lines and lines[0].viewed.is_recommended):
            return None, lines
        equal = {recommended.row.key.with_batch_size(size) for size in recommended.viewed.batch_sizes}
        if any(line.viewed.is_recommended for line in lines):
            place = "also at its rank below"
        else:
            place = "on another page" if any(row.key in equal for row in filtered) else "outside the filter"
        return replace(self._make_table_row(recommended, scale), pinned=place), lines

    def _find_recommended_row(self) -> RowWithConfidenceIntervals | None:
        """The recommended row, joined with those that equal it, whatever the filter."""
        key = self._view.recommended
        if key is None:
            return None
        same = [row for row in self._board.leaderboard.rows if row.key.with_batch_size(key.batch_size) == key]
        equal = _join_equal_rows(self._board, same, collapse=True)
        view = LeaderboardView(self._view.board, self._view.compared, key, equal.batch_sizes)
        rows = (make_row_with_confidence_intervals(row, view) for row in equal.rows)
        return next((row for row in rows if row.viewed.is_recommended), None)

    def _make_table_row(self, shown: RowWithConfidenceIntervals, scale: IntervalScale | None) -> LeaderboardTableRow:
        row = shown.row
        return LeaderboardTableRow(
            shown.viewed,
            shown.figures,
            key=format_row_key(row.key),
            parameters={
                name: format_parameter_value_short(value, row.point_digits)
                for name, value in self._board.point_parameter_parser(row.point).items()
            },
            picture=render_interval_svg(shown.figures[self._loss], scale),
        )


def _shows_intervals(rows: Sequence[LeaderboardTableRow], columns: Sequence[LeaderboardColumn]) -> bool:
    figures = (row.figures.get(column.key) for row in rows for column in columns)
    return any(figure is not None and figure.half is not None for figure in figures)


def _join_equal_rows(board: CachedLeaderboard, rows: Sequence[LeaderboardRow], *, collapse: bool) -> DistinctRows:
    per_slot = board.spec.has_populations_per_slot
    return make_distinct_rows(rows, board.leaderboard.ranked_on, collapse=collapse, per_slot=per_slot)


@router.get("/leaderboard")
def leaderboard_page(request: Request, study: ReadableStudy, context: ContextDep, query: PageQuery) -> HTMLResponse:
    """A page of the leaderboard. Ranks refer to the whole leaderboard, whatever the filter."""
    board, analysis = _read_leaderboard_and_analysis(context, study, query.on)
    leaderboard = board.leaderboard
    rows = filter_and_sort_rows(board, query.filters, query.sort)
    distinct = _join_equal_rows(board, rows, collapse=query.collapse)
    position = make_paging(query.page, _PAGE_SIZE, len(distinct))
    table = _LeaderboardTable(board, analysis, distinct)
    pinned, lines = table.make_recommended_and_other_rows(position.start, rows)
    shown = [*lines, *([] if pinned is None else [pinned])]
    choices = make_leaderboard_filter_choices(board)
    comparison = None if analysis is None else analysis.comparison
    available = list_available_columns(
        leaderboard,
        choices.parameters,
        has_comparison=comparison is not None,
        loss=board.spec.loss_description.text,
    )
    columns = choose_shown_columns(available, query.columns, query.filters["condition"])
    return render_study_page(
        request,
        "leaderboard.html",
        context,
        study,
        board=leaderboard,
        has_accuracy=leaderboard.has_accuracy,
        seeds=len(board.spec.all_seeds),
        verdicts=None if comparison is None else format_sentence(row_verdicts_text(comparison)),
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
        decimals=decimals_by_metric(shown, leaderboard),
    )


@router.get("/parts/difference")
def difference_fragment(
    study: ReadableStudy, context: ContextDep, row: RowChoice = None, on: SplitChoice = ""
) -> HTMLResponse:
    """The difference of two rows, as a part of the page."""
    board, analysis = _read_leaderboard_and_analysis(context, study, on)
    difference = find_chosen_rows_difference(board, analysis, tuple(dict.fromkeys(row or ())))
    return render_fragment_response(
        "parts/row_difference.html",
        difference=difference,
        has_accuracy=board.leaderboard.has_accuracy,
        study={"id": study.id},
    )


def _read_leaderboard_and_analysis(
    context: AppContext, study: StudyAccess, on: str
) -> tuple[CachedLeaderboard, Analysis | None]:
    """Return the leaderboard, and the analysis of the study if it is of the split that ranks."""
    board = context.leaderboards.get_or_compute(
        study.id, study.results, Split(on) if on else None, allow_stale=study.is_queued_or_running
    )
    ranks_as_the_study = on in ("", board.spec.ranking.split.value)
    return board, context.analyses.find_or_load_current_analysis(study.id) if ranks_as_the_study else None
