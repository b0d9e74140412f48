"""Studies side by side: the same configurations, matched."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from bln_search.core.enums import Split
from bln_search.ranking.grouping import losses_by_condition
from bln_search.ranking.selection.cross_study import match
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import condition_label, distinct
from bln_search.reports.charts.configurations import ranks_under
from bln_search.storage.access import Bearer
from bln_search.storage.browse import Page, StudyLine, list_studies
from service.context import Context, Here
from service.leaderboard_cache import Board
from service.pages.charts import drawn
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.problems import RefusedError
from service.security import OwnStudy, Reader, visible_owner

router = APIRouter(include_in_schema=False)
_MOST = 6
_ROWS = 100
_CHOICES = 50
_LARGEST = 2**31
Studies = Annotated[list[int] | None, Query(description="two to six studies")]
SplitChoice = Annotated[Literal["validation", "test"], Query()]


@router.get("/compare")
def compare(
    request: Request, context: Here, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> HTMLResponse:
    """Two to six studies; fewer: a choice of them."""
    numbers = list(dict.fromkeys(study or ()))
    lines = list_studies(context.engine, Page(_CHOICES, "-created"), owner=visible_owner(reader))
    shared: dict[str, Any] = {
        "visitor": visitor_of(reader),
        "choices": _choices(context, reader, lines[:_CHOICES], numbers),
        "chosen": numbers,
        "split": split,
    }
    if not 2 <= len(numbers) <= _MOST:
        advice = f"Choose two to {_MOST} studies." if numbers else None
        return page(request, "compare.html", boards=[], rows=[], found=0, advice=advice, **shared)
    boards = _boards(context, reader, numbers)
    rows, found = match([board.losses[Split(split)] for board in boards], _ROWS)
    advice = None if rows else "These studies have no configuration in common that is measured in two of them."
    return page(
        request,
        "compare.html",
        charts=True,
        boards=list(zip(numbers, boards, strict=True)),
        rows=rows,
        found=found,
        advice=advice,
        **shared,
    )


@router.get("/compare/ranks.json")
def compared_ranks(
    context: Here, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> JSONResponse:
    """Which configuration wins in which study, and under which condition."""
    return drawn(_ranks(context, reader, study, split), _NEEDED)


@router.get("/compare/ranks.csv")
def compared_data(context: Here, reader: Reader, study: Studies = None, split: SplitChoice = "validation") -> Response:
    """The same as a table."""
    chart = _ranks(context, reader, study, split)
    if chart is None:
        raise RefusedError(404, "no-data", f"there is nothing to show: {_NEEDED}")
    headers = {"Content-Disposition": 'attachment; filename="ranks.csv"'}
    return Response(chart.csv, media_type="text/csv; charset=utf-8", headers=headers)


_NEEDED = "this needs two conditions with the same configurations"


def _ranks(context: Context, reader: Bearer, study: list[int] | None, split: str) -> Chart | None:
    numbers = list(dict.fromkeys(study or ()))[:_MOST]
    found = [
        (f"{number}: {board.spec.name}", condition, losses)
        for number, board in zip(numbers, _boards(context, reader, numbers), strict=True)
        for condition, losses in list(losses_by_condition(board.losses[Split(split)]).items())[:_MOST]
    ]
    among = [condition for _, condition, _ in found]
    labels = distinct(f"{name}, {condition_label(condition, among)}" for name, condition, _ in found)
    return ranks_under({label: losses for label, (_, _, losses) in zip(labels, found, strict=True)})


def _choices(context: Context, reader: Bearer, newest: list[StudyLine], chosen: list[int]) -> list[StudyLine]:
    """The newest studies, and those that are chosen already."""
    missing = [one for one in chosen if one not in {line.id for line in newest} and 0 < one < _LARGEST]
    page = Page(_CHOICES, "-created")
    more = list_studies(context.engine, page, owner=visible_owner(reader), numbers=missing) if missing else []
    return newest + more[:_CHOICES]


def _boards(context: Context, reader: Bearer, numbers: list[int]) -> list[Board]:
    """Raises RefusedError (404) for a study that is not there, or not for this reader."""
    if not numbers:
        raise RefusedError(422, "invalid", "name the studies to compare, for example ?study=1&study=2")
    seen = [OwnStudy(number, context, reader) for number in numbers]
    boards = (context.boards.get(one.id, one.results, patient=one.goes_on) for one in seen)
    return [
        replace(board, spec=board.spec.model_copy(update={"name": one.name}))
        for board, one in zip(boards, seen, strict=True)
    ]
