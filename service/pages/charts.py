"""Pages of a study's charts: each as a Plotly figure for a script, and as CSV."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from service.context import ContextDep
from service.http.problems import ProblemException
from service.pages.chart_catalog import CHARTS, GROUPS, ChartEntry
from service.pages.chart_query import MAX_SETTINGS, StudyChartQuery
from service.pages.rendering.chart_responses import DrawnChart, add_chart_routes
from service.pages.study_head import render_study_page
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
