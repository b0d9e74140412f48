"""Routes of a chart: the figure for a script, and its data as CSV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response

from bln_search.reports.charts import Chart
from service.http.problems import ProblemException
from service.pages.rendering.heat_map_bars import replace_heat_map_by_bars

_DIGITS = 7
"""Significant digits of the numbers of a figure. The data of a chart as CSV have all digits."""


class DrawnChart(NamedTuple):
    """A chart to send.

    Attributes:
        chart: The chart; None if data are missing.
        filename: Name of the file of its data, without extension.
        requirement: What is missing if there is no chart.
    """

    chart: Chart | None
    filename: str
    requirement: str


def add_chart_routes(router: APIRouter, path: str, draw: Callable[..., DrawnChart]) -> None:
    """Add `path`.json, a Plotly figure or what is missing, and `path`.csv, its data.

    Args:
        router: The router.
        path: Path without extension.
        draw: A dependency that draws the chart.
    """

    @router.get(f"{path}.json")
    def plotly_json(drawn: DrawnChart = Depends(draw)) -> JSONResponse:  # noqa: B008 - not known to `Annotated`
        chart = drawn.chart
        if chart is None:
            return JSONResponse({"figure": None, "about": f"Nothing to show: {drawn.requirement}."})
        figure = _round_numbers(replace_heat_map_by_bars(chart.figure))
        return JSONResponse({"figure": figure, "about": chart.caption, "title": chart.title})

    @router.get(f"{path}.csv")
    def download_csv(drawn: DrawnChart = Depends(draw)) -> Response:  # noqa: B008 - not known to `Annotated`
        if drawn.chart is None:
            raise ProblemException(404, "no-data", f"there is nothing to show yet: {drawn.requirement}")
        headers = {"Content-Disposition": f'attachment; filename="{drawn.filename}.csv"'}
        return Response(drawn.chart.rows_as_csv, media_type="text/csv; charset=utf-8", headers=headers)


def _round_numbers(value: Any) -> Any:
    """Return a part of a figure with numbers of seven digits: more are not visible, and are half of its size."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round_numbers(item) for item in value]
    return value
