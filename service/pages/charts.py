"""Charts of a study: each as a figure for the script that draws it, and as its data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from bln_search.core.enums import ProbeKind, Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import Condition, losses_by_condition
from bln_search.ranking.probe_results import Probed, company
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import condition_labels
from bln_search.reports.charts.comparison import critical_difference_chart, differences_chart
from bln_search.reports.charts.conditions import best_points, point_results, ranks_of_best
from bln_search.reports.charts.configurations import ByConfiguration, effects_chart, heat_map
from bln_search.reports.charts.curves import ERROR, LOSS, Metric, TrialCurve, curves_chart
from bln_search.reports.charts.layers import drift_chart
from bln_search.reports.charts.per_layer import layer_switches_chart
from bln_search.reports.charts.probes import axis_chart, company_chart, latency_chart
from bln_search.reports.charts.search import PointResult, importance_chart, parallel_chart, pareto_chart
from bln_search.reports.charts.variance import variance_chart
from bln_search.specs.space import point_label
from bln_search.storage.browse import Page, find_study_line, list_curves
from bln_search.storage.overview import drifts, inference_seconds
from bln_search.storage.probes import probes_of
from service.context import Context, Here
from service.leaderboard_cache import Board
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.problems import RefusedError
from service.security import OwnStudy, Seen

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_MOST_CONDITIONS = 40
_MOST_CURVES = 60
SplitChoice = Annotated[Literal["validation", "test"], Query(description="split whose loss is shown")]
ConditionChoice = Annotated[int, Query(ge=0, lt=1_000_000, description="which of the conditions")]


class Question:
    """What a chart is to show."""

    def __init__(self, study: OwnStudy, context: Context, split: str, condition: int) -> None:
        self.study, self.context = study, context
        self.split = Split(split)
        self._condition = condition

    @cached_property
    def board(self) -> Board:
        """The study's table; made only for a chart that needs it."""
        return self.context.boards.get(self.study.id, self.study.results, patient=self.study.goes_on)

    @cached_property
    def conditions(self) -> dict[Condition, ByConfiguration]:
        """What can be chosen, with the losses of each."""
        return best_points(losses_by_condition(self.board.losses[self.split]))

    @property
    def place(self) -> int:
        """Which of the conditions is chosen."""
        return self._condition if self._condition < min(len(self.conditions), _MOST_CONDITIONS) else 0

    @property
    def losses(self) -> ByConfiguration:
        """Of the condition that is chosen."""
        return list(self.conditions.values())[self.place] if self.conditions else {}

    def probed(self, *kinds: ProbeKind) -> list[Probed]:
        """The probes of these kinds of the arm that is chosen."""
        arm = list(self.conditions)[self.place].arm
        return probes_of(self.context.engine, self.study.id, arm=arm, kinds=kinds)

    @property
    def analysis(self) -> Analysis | None:
        """What its results say."""
        return self.context.analyses.get(self.study.id)

    def labels(self) -> list[str]:
        """The conditions for people."""
        return list(condition_labels(self.conditions).values())

    def points(self) -> list[PointResult]:
        """Every point with its best mean loss, where the study has a space."""
        losses = self.board.losses[self.split]
        seconds = inference_seconds(self.context.engine, self.study.id) if any(key[1] for key in losses) else {}
        return point_results(losses, seconds)


def _curves(question: Question, metric: Metric) -> Chart | None:
    rows = list_curves(question.context.engine, question.study.id, Page(_MOST_CURVES, "position"), {})
    curves = [
        TrialCurve(trial.arm, point_label(trial.parameters) if trial.parameters else "", trial.seed, epochs)
        for trial, epochs in rows[:_MOST_CURVES]
    ]
    found = find_study_line(question.context.engine, question.study.id)
    return curves_chart(curves, sum(found[0].trials.values()) if found else len(curves), metric)


def _layers(question: Question) -> Chart | None:
    if not question.conditions:
        return None
    condition = list(question.conditions)[question.place]
    return drift_chart(drifts(question.context.engine, question.study.id, condition.arm, condition.point))


def _axis(question: Question, kind: ProbeKind) -> Chart | None:
    if not question.conditions:
        return None
    one = list(question.conditions)[question.place]
    return axis_chart(question.probed(kind), kind, one.arm, one.point, one.estimate or "")


def _company(question: Question) -> Chart | None:
    if not question.conditions:
        return None
    one = list(question.conditions)[question.place]
    return company_chart(
        company(question.probed(ProbeKind.RESHUFFLED, ProbeKind.SKEWED)), one.arm, one.point, one.estimate or ""
    )


def _compared(question: Question, draw: Callable[[Comparison], Chart | None]) -> Chart | None:
    analysis = question.analysis
    return None if analysis is None or analysis.comparison is None else draw(analysis.comparison)


def _variance(question: Question) -> Chart | None:
    analysis = question.analysis
    if analysis is None or not question.conditions:
        return None
    one = list(question.conditions)[question.place]
    return variance_chart(analysis.shares, one.arm, one.point)


def _latencies(question: Question) -> Chart | None:
    analysis = question.analysis
    return None if analysis is None else latency_chart(analysis.latencies, analysis.device, analysis.threads)


def _per_layer(question: Question) -> Chart | None:
    analysis = question.analysis
    if analysis is None or not question.conditions:
        return None
    one = list(question.conditions)[question.place]
    found = (result for result in analysis.layers if (result.arm, result.point) == (one.arm, one.point))
    result = next(found, None)
    return None if result is None else layer_switches_chart(result)


CHARTS: dict[str, tuple[str, Callable[[Question], Chart | None], str]] = {
    "curves": (LOSS.title, lambda one: _curves(one, LOSS), "nothing is trained yet"),
    "errors": (ERROR.title, lambda one: _curves(one, ERROR), "nothing is trained yet"),
    "configurations": ("Loss of every configuration", lambda one: heat_map(one.losses), "nothing is measured yet"),
    "switches": (
        "What each switch does",
        lambda one: effects_chart(one.losses),
        "this needs every configuration of the method measured under one seed at least",
    ),
    "variance": (
        "What explains the differences",
        _variance,
        "this is worked out when the study is complete",
    ),
    "differences": (
        "Differences to the best row",
        lambda one: _compared(one, differences_chart),
        "rows are compared when the study is complete",
    ),
    "critical-difference": (
        "Critical difference of mean ranks",
        lambda one: _compared(one, critical_difference_chart),
        "this needs a complete study with two seeds and three rows",
    ),
    "ranks": (
        "Which configuration wins where",
        lambda one: ranks_of_best(one.conditions, _MOST_CONDITIONS),
        "this needs a second population estimate, inference batch size, point or arm of the same method",
    ),
    "batch-sizes": (
        "Loss at other batch sizes",
        lambda one: _axis(one, ProbeKind.SIZE),
        "this needs `probes: {batch_sizes: [1, 2, 4, 8]}` in the study, or `bln-search probe`",
    ),
    "epochs": (
        "Loss after other epochs",
        lambda one: _axis(one, ProbeKind.EPOCH),
        "this needs `probes: {epochs: 3}` in the study",
    ),
    "company": (
        "Dependence on the mini-batch",
        _company,
        "this needs `probes: {reshuffles: 5}` in the study, or `bln-search probe`",
    ),
    "latencies": (
        "Time at inference",
        _latencies,
        "this is measured when the study is complete, where its networks are",
    ),
    "layers": (
        "Population against mini-batch",
        _layers,
        "networks trained from now on record what this needs",
    ),
    "per-layer": (
        "What each switch does in each layer",
        _per_layer,
        "this needs a section `layers` in the study, and its networks searched",
    ),
    "importance": (
        "Which parameters matter",
        lambda one: importance_chart(one.points()),
        "this needs a study with a space, and eight of its points measured",
    ),
    "points": (
        "Points of the search",
        lambda one: parallel_chart(one.points()),
        "this needs a study with a space, and two of its points measured",
    ),
    "front": (
        "Loss and inference time",
        lambda one: pareto_chart(one.points()),
        "this needs a search with the objective inference_seconds",
    ),
}


def _known(name: str) -> str:
    """Raises RefusedError (404) for a chart that there is not."""
    if name not in CHARTS:
        raise RefusedError(404, "not-found", f"there is no chart {name!r}; there are {', '.join(CHARTS)}")
    return name


ChartName = Annotated[str, Depends(_known)]


@router.get("/charts")
def charts(
    request: Request, study: Seen, context: Here, split: SplitChoice = "validation", condition: ConditionChoice = 0
) -> HTMLResponse:
    """Every chart of a study."""
    question = Question(study, context, split, condition)
    analysis = question.analysis
    return page(
        request,
        "charts.html",
        charts=True,
        visitor=visitor_of(study.bearer),
        study={"id": study.id, "name": study.name, "title": question.board.spec.title},
        per_layer=analysis is not None and bool(analysis.layers),
        names={name: title for name, (title, _, _) in CHARTS.items()},
        split=split,
        condition=question.place,
        conditions=question.labels()[:_MOST_CONDITIONS],
    )


@router.get("/charts/{name}.csv")
def chart_data(
    study: Seen, name: ChartName, context: Here, split: SplitChoice = "validation", condition: ConditionChoice = 0
) -> Response:
    """What a chart shows, as a table."""
    chart = _chart(name, Question(study, context, split, condition))
    if chart is None:
        raise RefusedError(404, "no-data", f"there is nothing to show yet: {CHARTS[name][2]}")
    headers = {"Content-Disposition": f'attachment; filename="study-{study.id}-{name}.csv"'}
    return Response(chart.csv, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/charts/{name}.json")
def chart_figure(
    study: Seen, name: ChartName, context: Here, split: SplitChoice = "validation", condition: ConditionChoice = 0
) -> JSONResponse:
    """A chart for the script that draws it."""
    return drawn(_chart(name, Question(study, context, split, condition)), CHARTS[name][2])


def _chart(name: str, question: Question) -> Chart | None:
    return CHARTS[name][1](question)


def drawn(chart: Chart | None, otherwise: str) -> JSONResponse:
    """The figure, or why there is none."""
    if chart is None:
        return JSONResponse({"figure": None, "about": f"Nothing to show yet: {otherwise}."})
    answer: dict[str, Any] = {"figure": chart.figure, "about": chart.about, "title": chart.title}
    return JSONResponse(answer)
