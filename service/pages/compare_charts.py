"""Studies that are compared, and charts of them: ranks by evaluation setting, and training curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from bln_search.core.enums import Split
from bln_search.ranking.grouping import group_losses_by_setting_and_configuration
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import distinguishing_setting_label, make_labels_unique
from bln_search.reports.charts.configurations import configuration_ranks_chart_by_label
from bln_search.reports.charts.curves import LOSS, learning_curves_chart
from bln_search.reports.charts.evaluation_settings import search_measure_name
from bln_search.reports.charts.search_progress import search_history_chart
from bln_search.storage.tokens import Bearer
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext, ContextDep
from service.http.problems import ProblemException
from service.pages.chart_query import read_learning_curves, read_tried_points
from service.pages.rendering.chart_responses import DrawnChart, add_chart_routes
from service.security import Reader, StudyAccess

router = APIRouter(prefix="/compare", include_in_schema=False)
_MAX_SETTINGS = 6
"""Evaluation settings of each study in the chart of ranks."""

_MAX_CURVES = 20
"""Curves of each study."""


MAX_STUDIES = 6
Studies = Annotated[list[int] | None, Query(description="two to six studies")]
SplitChoice = Annotated[Literal["validation", "test"], Query()]
_Boards = Mapping[int, CachedLeaderboard]
_Draw = Callable[[AppContext, _Boards, Split], Chart | None]


def get_leaderboards_of_studies(
    context: AppContext, reader: Bearer, study_ids: list[int]
) -> dict[int, CachedLeaderboard]:
    """Return the leaderboards by study.

    Raises:
        ProblemException: 422 if no study is named, 404 if the reader can see no such study.
    """
    if not study_ids:
        raise ProblemException(422, "invalid", "name the studies to compare, for example ?study=1&study=2")
    studies = [StudyAccess(study_id, context, reader) for study_id in study_ids]
    boards = (
        context.leaderboards.get_or_compute(study.id, study.results, allow_stale=study.is_queued_or_running)
        for study in studies
    )
    return {
        study.id: replace(board, spec=board.spec.model_copy(update={"name": study.name}))
        for board, study in zip(boards, studies, strict=True)
    }


def _draw_configuration_ranks(_: AppContext, boards: _Boards, split: Split) -> Chart | None:
    """Which configuration is best in which study and under which evaluation setting."""
    compared = [
        (f"{study_id}: {board.spec.name}", setting, losses)
        for study_id, board in boards.items()
        for setting, losses in list(group_losses_by_setting_and_configuration(board.losses[split]).items())[
            :_MAX_SETTINGS
        ]
    ]
    settings = [setting for _, setting, _ in compared]
    labels = make_labels_unique(
        f"{name}, {distinguishing_setting_label(setting, settings)}" for name, setting, _ in compared
    )
    return configuration_ranks_chart_by_label(
        {label: losses for label, (_, _, losses) in zip(labels, compared, strict=True)}
    )


def _draw_learning_curves(context: AppContext, boards: _Boards, _: Split) -> Chart | None:
    """The training curves of all studies in one chart, a colour for each arm of each study."""
    curves, trials = [], 0
    for study_id, board in boards.items():
        of_study, of_trials = read_learning_curves(context, study_id, _MAX_CURVES)
        curves += [replace(curve, arm=f"{study_id}: {board.spec.name}, {curve.arm}") for curve in of_study]
        trials += of_trials
    units = {board.spec.loss_description.unit for board in boards.values()}
    return learning_curves_chart(curves, trials, LOSS, unit=units.pop() if len(units) == 1 else "")


def _draw_search_histories(context: AppContext, boards: _Boards, _: Split) -> Chart | None:
    """The lowest losses of all searches by trained epochs, a colour for each arm of each study."""
    points = [
        replace(point, arm=f"{study_id}: {board.spec.name}, {point.arm}")
        for study_id, board in boards.items()
        for point in read_tried_points(context, study_id, board.spec)
    ]
    measures = {search_measure_name(board.spec) for board in boards.values()}
    return search_history_chart(points, measures.pop()) if len(measures) == 1 else None


_CHARTS: dict[str, tuple[_Draw, str]] = {
    "ranks": (_draw_configuration_ranks, "this needs two evaluation settings with the same configurations"),
    "curves": (_draw_learning_curves, "nothing is trained yet"),
    "search": (
        _draw_search_histories,
        "this needs a search by a sampler other than grid, with one objective for all studies",
    ),
}
"""Each chart by its name, and what is missing if it cannot be drawn."""


def _draw_chart_by_name(
    name: str, context: ContextDep, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> DrawnChart:
    if name not in _CHARTS:
        raise ProblemException(404, "not-found", f"there is no chart {name!r}; there are {', '.join(_CHARTS)}")
    draw, requirement = _CHARTS[name]
    boards = get_leaderboards_of_studies(context, reader, list(dict.fromkeys(study or ()))[:MAX_STUDIES])
    return DrawnChart(draw(context, boards, Split(split)), name, requirement)


add_chart_routes(router, "/{name}", _draw_chart_by_name)
