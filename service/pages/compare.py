"""Studies side by side: the same configurations, matched."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse

from bln_search.core.words import Split
from bln_search.ranking.differences import match
from bln_search.ranking.groups import losses_by_condition
from bln_search.reports.charts.chart import condition_label
from bln_search.reports.charts.configurations import ranks_under
from bln_search.storage.access import Bearer
from bln_search.storage.browse import Page, list_studies
from service.boards import Board
from service.context import Context, Here
from service.pages.charts import drawn
from service.pages.render import page
from service.pages.visitor import visitor_of
from service.problems import RefusedError
from service.security import OwnStudy, Reader, visible_owner

router = APIRouter(include_in_schema=False)
_MOST = 6
_ROWS = 100
_CHOICES = 50
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
        "choices": lines[:_CHOICES],
        "chosen": numbers,
        "split": split,
    }
    if not 2 <= len(numbers) <= _MOST:
        advice = f"Choose two to {_MOST} studies." if numbers else None
        return page(request, "compare.html", boards=[], rows=[], found=0, advice=advice, **shared)
    boards = _boards(context, reader, numbers)
    rows = match([board.losses[Split(split)] for board in boards])
    advice = None if rows else "These studies have no configuration in common that is measured in two of them."
    return page(
        request,
        "compare.html",
        charts=True,
        boards=list(zip(numbers, boards, strict=True)),
        rows=rows[:_ROWS],
        found=len(rows),
        advice=advice,
        **shared,
    )


@router.get("/compare/ranks.json")
def compared_ranks(
    context: Here, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> JSONResponse:
    """Which configuration wins in which study, and under which condition."""
    numbers = list(dict.fromkeys(study or ()))[:_MOST]
    found = [
        (f"{number}: {board.spec.name}", condition, losses)
        for number, board in zip(numbers, _boards(context, reader, numbers), strict=True)
        for condition, losses in list(losses_by_condition(board.losses[Split(split)]).items())[:_MOST]
    ]
    among = [condition for _, condition, _ in found]
    conditions = {f"{study}, {condition_label(condition, among)}": losses for study, condition, losses in found}
    return drawn(
        ranks_under(conditions) if conditions else None, "this needs two conditions with the same configurations"
    )


def _boards(context: Context, reader: Bearer, numbers: list[int]) -> list[Board]:
    """Raises RefusedError (404) for a study that is not there, or not for this reader."""
    if not numbers:
        raise RefusedError(422, "invalid", "name the studies to compare, for example ?study=1&study=2")
    seen = [OwnStudy(number, context, reader) for number in numbers]
    return [context.boards.get(one.id, one.results, patient=True) for one in seen]
