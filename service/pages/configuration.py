"""One configuration: what it means, how it does, how to use it."""

from __future__ import annotations

import statistics
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.configuration import InferenceConfiguration, Method, all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.ranking.grouping import losses_by_condition
from bln_search.reports.charts.chart import condition_labels
from bln_search.reports.comparison import groups_of
from bln_search.specs.space import written_label
from bln_search.storage.overview import checkpoints_of
from service.context import Here
from service.leaderboard_cache import Board
from service.pages.leaderboard import shown_row
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.problems import RefusedError
from service.routes.results import ArmFilter
from service.security import Reader, Seen
from service.views import configuration_view

router = APIRouter(include_in_schema=False)
_MOST_WINS = 20


@router.get("/studies/{study_id:number}/configurations/{word}")
def configuration(
    request: Request,
    study: Seen,
    word: str,
    context: Here,
    arm: ArmFilter = None,
    point: Annotated[str, Query(max_length=5000)] = "",
    estimate: Annotated[PopulationEstimate | Literal[""], Query()] = "",
    batch_size: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> HTMLResponse:
    """Where a configuration stands in a study, in words, formula and code."""
    try:
        wanted = InferenceConfiguration(word)
    except ValueError as error:
        raise RefusedError(404, "not-found", str(error)) from None
    board = context.boards.get(study.id, study.results, patient=study.goes_on)
    same = [row for row in board.leaderboard.rows if row.configuration == wanted]
    chosen = [
        row
        for row in same
        if (arm in (None, "", row.arm))
        and (point in ("", row.point))
        and (not estimate or row.estimate is None or row.estimate == estimate)
        and (batch_size in (None, row.batch_size))
    ]
    if not chosen:
        raise RefusedError(404, "not-found", f"study {study.id} has no row with the configuration {word} like that")
    first = chosen[0]
    groups = groups_of(context.analyses.get(study.id))
    method = next(one.method for one in board.spec.arms if one.label == first.arm)
    return page(
        request,
        "configuration.html",
        visitor=visitor_of(study.bearer),
        study={"id": study.id, "name": study.name},
        view=configuration_view(wanted, method),
        method=method,
        shown=shown_row(first, board, groups),
        parameters=written_label(first.point),
        others=[shown_row(row, board, groups) for row in same if row is not first][:50],
        ranked_on=board.leaderboard.ranked_on,
        wins=_wins(board, wanted),
        checkpoints=checkpoints_of(context.engine, study.id, first.arm, first.point)[:20],
    )


def _wins(board: Board, configuration: InferenceConfiguration) -> list[str]:
    """The conditions under which it has the lowest mean loss of all."""
    conditions = losses_by_condition(board.losses[board.leaderboard.ranked_on])
    labels = condition_labels(conditions)
    won = []
    for condition, losses in conditions.items():
        means = {one: statistics.fmean(values.values()) for one, values in losses.items()}
        if configuration in means and means[configuration] == min(means.values()):
            won.append(labels[condition])
    return won[:_MOST_WINS]


@router.get("/configurations")
def configurations(request: Request, reader: Reader, method: Annotated[Method, Query()] = Method.BLN) -> HTMLResponse:
    """Every configuration of a method, explained."""
    return page(
        request,
        "configurations.html",
        visitor=visitor_of(reader),
        method=method,
        methods=list(Method),
        configurations=[(one, configuration_view(one, method)) for one in all_configurations(method)],
    )
