"""Page that compares studies: rows with the same configuration side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from bln_search.core.enums import Split
from bln_search.ranking.grouping import losses_by_condition
from bln_search.ranking.selection.cross_study import match_rows
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import condition_label, number_duplicates
from bln_search.reports.charts.configurations import rank_chart_by_label
from bln_search.storage.listing.studies import StudyListItem
from bln_search.storage.pagination import Page
from bln_search.storage.tokens import Bearer
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import Context, ContextDep
from service.http.problems import ProblemException
from service.pages.rendering.chart_responses import csv_response, figure_response
from service.pages.rendering.templates import render_page
from service.pages.rendering.viewer import viewer_context
from service.security import Reader, StudyAccess, visible_owner

router = APIRouter(include_in_schema=False)
_MAX_STUDIES = 6
_MAX_CONDITIONS = 6
"""Conditions of each study in the chart."""

_MAX_ROWS = 100
_MAX_CHOICES = 50
_MAX_ID = 2**31
Studies = Annotated[list[int] | None, Query(description="two to six studies")]
SplitChoice = Annotated[Literal["validation", "test"], Query()]


@router.get("/compare")
def comparison_page(
    request: Request, context: ContextDep, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> HTMLResponse:
    """Compare two to six studies; with fewer, offer studies to choose."""
    study_ids = list(dict.fromkeys(study or ()))
    newest = context.ledger.listing.list_studies(Page(_MAX_CHOICES, "-created"), owner=visible_owner(reader))
    shared: dict[str, Any] = {
        "viewer": viewer_context(reader),
        "choices": _studies_to_choose(context, reader, newest[:_MAX_CHOICES], study_ids),
        "chosen": study_ids,
        "split": split,
    }
    if not 2 <= len(study_ids) <= _MAX_STUDIES:
        advice = f"Choose two to {_MAX_STUDIES} studies." if study_ids else None
        return render_page(request, "compare.html", boards=[], rows=[], found=0, advice=advice, **shared)
    boards = _read_leaderboards(context, reader, study_ids)
    rows, found = match_rows([board.losses[Split(split)] for board in boards], _MAX_ROWS)
    advice = None if rows else "These studies have no configuration in common that is measured in two of them."
    return render_page(
        request,
        "compare.html",
        charts=True,
        boards=list(zip(study_ids, boards, strict=True)),
        rows=rows,
        found=found,
        advice=advice,
        **shared,
    )


@router.get("/compare/ranks.json")
def compared_ranks(
    context: ContextDep, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> JSONResponse:
    """Which configuration is best in which study and under which condition, as a Plotly figure."""
    return figure_response(_rank_chart(context, reader, study, split), _REQUIREMENT)


@router.get("/compare/ranks.csv")
def compared_data(
    context: ContextDep, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> Response:
    """The same as CSV."""
    chart = _rank_chart(context, reader, study, split)
    return csv_response(chart, "ranks", _REQUIREMENT)


_REQUIREMENT = "this needs two conditions with the same configurations"


def _rank_chart(context: Context, reader: Bearer, study: list[int] | None, split: str) -> Chart | None:
    study_ids = list(dict.fromkeys(study or ()))[:_MAX_STUDIES]
    compared = [
        (f"{study_id}: {board.spec.name}", condition, losses)
        for study_id, board in zip(study_ids, _read_leaderboards(context, reader, study_ids), strict=True)
        for condition, losses in list(losses_by_condition(board.losses[Split(split)]).items())[:_MAX_CONDITIONS]
    ]
    conditions = [condition for _, condition, _ in compared]
    labels = number_duplicates(f"{name}, {condition_label(condition, conditions)}" for name, condition, _ in compared)
    return rank_chart_by_label({label: losses for label, (_, _, losses) in zip(labels, compared, strict=True)})


def _studies_to_choose(
    context: Context, reader: Bearer, newest: list[StudyListItem], chosen_ids: list[int]
) -> list[StudyListItem]:
    """Return the newest studies and the chosen ones."""
    listed_ids = {item.id for item in newest}
    missing_ids = [study_id for study_id in chosen_ids if study_id not in listed_ids and 0 < study_id < _MAX_ID]
    page = Page(_MAX_CHOICES, "-created")
    others = (
        context.ledger.listing.list_studies(page, owner=visible_owner(reader), ids=missing_ids) if missing_ids else []
    )
    return newest + others[:_MAX_CHOICES]


def _read_leaderboards(context: Context, reader: Bearer, study_ids: list[int]) -> list[CachedLeaderboard]:
    """Return the leaderboards. Raises ProblemException (404) if the reader can see no such study."""
    if not study_ids:
        raise ProblemException(422, "invalid", "name the studies to compare, for example ?study=1&study=2")
    studies = [StudyAccess(study_id, context, reader) for study_id in study_ids]
    boards = (context.leaderboards.get(study.id, study.results, allow_stale=study.is_active) for study in studies)
    return [
        replace(board, spec=board.spec.model_copy(update={"name": study.name}))
        for board, study in zip(boards, studies, strict=True)
    ]
