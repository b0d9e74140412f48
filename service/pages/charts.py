"""Pages of a study's charts: each as a Plotly figure for a script, and as CSV."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from service.context import ContextDep
from service.http.problems import ProblemException
from service.pages.chart_catalog import CHARTS, GROUPS, ChartEntry
from service.pages.chart_query import MAX_SETTINGS, StudyChartQuery
from service.pages.rendering.chart_responses import make_chart_csv_response, make_figure_or_reason_response
from service.pages.rendering.templates import render_page_response
from service.pages.rendering.viewer import make_viewer_variables
from service.pages.study_head import study_title_variables
from service.security import ReadableStudy

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
    analysis = query.analysis
    groups, missing = _split_charts_by_availability(query)
    labels = query.list_selectable_setting_labels()[:MAX_SETTINGS]
    return render_page_response(
        request,
        "charts.html",
        charts=True,
        viewer=make_viewer_variables(study.bearer),
        study=study_title_variables(context, study),
        per_layer=analysis is not None and bool(analysis.layers),
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


@router.get("/charts/{name}.csv")
def download_chart_csv(
    study: ReadableStudy,
    name: ChartName,
    context: ContextDep,
    split: SplitChoice = "validation",
    setting: SettingChoice = 0,
) -> Response:
    """The data of a chart."""
    chart = CHARTS[name].draw(StudyChartQuery(study, context, split, setting))
    return make_chart_csv_response(chart, f"study-{study.id}-{name}", CHARTS[name].requirement)


@router.get("/charts/{name}.json")
def chart_plotly_json(
    study: ReadableStudy,
    name: ChartName,
    context: ContextDep,
    split: SplitChoice = "validation",
    setting: SettingChoice = 0,
) -> JSONResponse:
    """A chart as a Plotly figure."""
    return make_figure_or_reason_response(
        CHARTS[name].draw(StudyChartQuery(study, context, split, setting)), CHARTS[name].requirement
    )
