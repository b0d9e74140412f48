"""The charts of a study: title, function and requirement of each, their page and their routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import ProbeKind
from bln_search.reports.charts import Chart
from bln_search.reports.charts.configurations import switch_effects_chart
from bln_search.reports.charts.curves import ERROR, LOSS
from bln_search.reports.charts.evaluation_settings import best_point_configuration_ranks_chart
from bln_search.reports.charts.layers import CURVATURE, EFFECTIVE_RATE, WEIGHT_NORM, LayerGeometryMeasure
from bln_search.reports.charts.search import (
    loss_and_time_pareto_chart,
    parallel_coordinates_chart,
    parameter_importance_chart,
)
from bln_search.reports.charts.search_progress import schedules_chart, search_history_chart
from service.context import ContextDep
from service.http.problems import ProblemException
from service.pages.chart_query import (
    MAX_SETTINGS,
    StudyChartQuery,
    build_batch_dependence_chart,
    build_configuration_losses_chart,
    build_differences_chart,
    build_latencies_chart,
    build_layer_geometry_chart,
    build_layer_switch_effects_chart,
    build_learning_curves_chart,
    build_probe_losses_chart,
    build_statistics_drift_chart,
    build_variance_shares_chart,
    has_accuracy_curves,
    has_enough_measured_points,
    has_learning_curves,
)
from service.pages.rendering.chart_responses import DrawnChart, add_chart_routes
from service.pages.study_head import render_study_page
from service.security import ReadableStudy


class ChartEntry(NamedTuple):
    """A chart of the catalog.

    Attributes:
        title: Title.
        draw: Draws the chart; returns None if the study lacks the data.
        requirement: What the study then lacks.
        by_setting: Whether the selected evaluation setting decides what the chart shows.
        has_data: Whether the chart can be drawn, for a chart that takes long to draw; None to draw it and see.
    """

    title: str
    draw: Callable[[StudyChartQuery], Chart | None]
    requirement: str
    by_setting: bool = False
    has_data: Callable[[StudyChartQuery], bool] | None = None

    def can_be_drawn(self, query: StudyChartQuery) -> bool:
        """Whether the study has the data."""
        return self.draw(query) is not None if self.has_data is None else self.has_data(query)


def _make_geometry_chart_entry(measure: LayerGeometryMeasure) -> ChartEntry:
    return ChartEntry(
        measure.title,
        lambda query: build_layer_geometry_chart(query, measure),
        "this needs `probes: {geometry: 256}` in the study",
        has_data=lambda query: query.board.spec.measures_layer_geometry,
    )


RESULT, TRAINING, CONFIGURATIONS, SEARCH, LAYERS, TIME = (
    "Result",
    "Training",
    "Configurations",
    "Search",
    "Layers",
    "Time",
)

GROUPS: dict[str, dict[str, ChartEntry]] = {
    RESULT: {
        "configurations": ChartEntry(
            "Loss of every configuration",
            build_configuration_losses_chart,
            "nothing is measured yet",
            by_setting=True,
        ),
        "differences": ChartEntry(
            "Differences to the best row",
            build_differences_chart,
            "rows are compared when the study is complete",
        ),
        "ranks": ChartEntry(
            "Ranks by evaluation setting",
            lambda query: best_point_configuration_ranks_chart(query.losses_by_selectable_setting, MAX_SETTINGS),
            "this needs a second population estimate, inference batch size, point or arm of the same method",
        ),
    },
    TRAINING: {
        "curves": ChartEntry(
            LOSS.title,
            lambda query: build_learning_curves_chart(query, LOSS),
            "nothing is trained yet",
            has_data=has_learning_curves,
        ),
        "errors": ChartEntry(
            ERROR.title,
            lambda query: build_learning_curves_chart(query, ERROR),
            "this needs trained networks whose predictions are right or wrong",
            has_data=has_accuracy_curves,
        ),
    },
    CONFIGURATIONS: {
        "switches": ChartEntry(
            "Effects of the switches",
            lambda query: switch_effects_chart(query.losses_of_selected_setting, unit=query.loss_unit),
            "this needs every configuration of the method measured under at least one seed",
            by_setting=True,
        ),
        "variance": ChartEntry(
            "Variance shares by factor",
            build_variance_shares_chart,
            "this needs a complete study, and a setting whose arm and point are among the compared rows",
            by_setting=True,
        ),
        "batch-sizes": ChartEntry(
            "Loss at other batch sizes",
            lambda query: build_probe_losses_chart(query, ProbeKind.SIZE),
            "this needs `probes: {batch_sizes: [1, 2, 4, 8]}` in the study, or `bln-search probe`",
            by_setting=True,
        ),
        "epochs": ChartEntry(
            "Loss after other epochs",
            lambda query: build_probe_losses_chart(query, ProbeKind.EPOCH),
            "this needs `probes: {epochs: 3}` in the study",
            by_setting=True,
        ),
        "company": ChartEntry(
            "Dependence on the mini-batch",
            build_batch_dependence_chart,
            "this needs `probes: {reshuffles: 5}` in the study, or `bln-search probe`",
            by_setting=True,
        ),
    },
    SEARCH: {
        "history": ChartEntry(
            "Course of the search",
            lambda query: search_history_chart(query.tried_points, query.point_comparison_measure),
            "this needs a sampler other than `grid`, and a point that is trained to its end",
        ),
        "schedules": ChartEntry(
            "Schedules of the search",
            lambda query: schedules_chart(
                query.tried_points, query.board.spec.space or {}, query.point_comparison_measure
            ),
            "this needs a sampler other than `grid`, a schedule in the space, and two points trained to their end",
        ),
        "importance": ChartEntry(
            "Parameter importance",
            lambda query: parameter_importance_chart(query.search_point_results, query.point_comparison_measure),
            "this needs a study with a space, and eight of its points measured",
            has_data=lambda query: has_enough_measured_points(query, 8),
        ),
        "points": ChartEntry(
            "Points of the search",
            lambda query: parallel_coordinates_chart(query.search_point_results, query.point_comparison_measure),
            "this needs a study with a space, and two of its points measured",
            has_data=lambda query: has_enough_measured_points(query, 2),
        ),
        "front": ChartEntry(
            "Loss and inference time",
            lambda query: (
                loss_and_time_pareto_chart(query.search_point_results, unit=query.loss_unit)
                if has_enough_measured_points(query, 2)
                else None
            ),
            "this needs a search with `objectives: [loss, inference_seconds]`",
            has_data=lambda query: (
                has_enough_measured_points(query, 2) and bool(query.inference_seconds_by_arm_and_point)
            ),
        ),
    },
    LAYERS: {
        "layers": ChartEntry(
            "Population and mini-batch statistics",
            build_statistics_drift_chart,
            "the networks of this study did not record this; new ones do",
            by_setting=True,
        ),
        "weight-norms": _make_geometry_chart_entry(WEIGHT_NORM),
        "effective-rates": _make_geometry_chart_entry(EFFECTIVE_RATE),
        "curvature": _make_geometry_chart_entry(CURVATURE),
        "per-layer": ChartEntry(
            "Effects of the switches by layer",
            build_layer_switch_effects_chart,
            "this needs a section `layers` in the study, and its networks searched",
            by_setting=True,
        ),
    },
    TIME: {
        "latencies": ChartEntry(
            "Inference time", build_latencies_chart, "this is measured by a worker when the study is complete"
        )
    },
}
"""The charts by group, in the order of the page."""

CHARTS: dict[str, ChartEntry] = {name: entry for charts in GROUPS.values() for name, entry in charts.items()}
"""Every chart by its name in URLs."""


router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
SplitChoice = Annotated[Literal["validation", "test"], Query(description="split whose loss is shown")]
SettingChoice = Annotated[int, Query(ge=0, lt=1_000_000, description="index of the evaluation setting")]


def _get_known_chart_name(name: str) -> str:
    """Return the name. Raises ProblemException (404) if there is no chart with that name."""
    if name not in CHARTS:
        raise ProblemException(404, "not-found", f"there is no chart {name!r}; there are {', '.join(CHARTS)}")
    return name


ChartName = Annotated[str, Depends(_get_known_chart_name)]


@router.get("/charts")
def charts_page(
    request: Request,
    study: ReadableStudy,
    context: ContextDep,
    split: SplitChoice = "validation",
    setting: SettingChoice = 0,
) -> HTMLResponse:
    """All charts of a study by group; those without data are listed with what they need."""
    query = StudyChartQuery(study, context, split, setting)
    groups, missing = _split_charts_by_availability(query)
    labels = query.list_selectable_setting_labels()[:MAX_SETTINGS]
    return render_study_page(
        request,
        "charts.html",
        context,
        study,
        charts=True,
        groups=groups,
        missing=missing,
        split=split,
        setting=query.selected_setting_index,
        settings=labels,
        setting_label=labels[query.selected_setting_index] if labels else None,
    )


def _split_charts_by_availability(query: StudyChartQuery) -> tuple[dict[str, dict[str, ChartEntry]], list[ChartEntry]]:
    """Return the charts with data by group, and those without."""
    groups: dict[str, dict[str, ChartEntry]] = {}
    missing = []
    for group, charts in GROUPS.items():
        for name, entry in charts.items():
            if entry.can_be_drawn(query):
                groups.setdefault(group, {})[name] = entry
            else:
                missing.append(entry)
    return groups, missing


def _draw_chart(
    study: ReadableStudy,
    name: ChartName,
    context: ContextDep,
    split: SplitChoice = "validation",
    setting: SettingChoice = 0,
) -> DrawnChart:
    entry = CHARTS[name]
    chart = entry.draw(StudyChartQuery(study, context, split, setting))
    return DrawnChart(chart, f"study-{study.id}-{name}", entry.requirement)


add_chart_routes(router, "/charts/{name}", _draw_chart)
