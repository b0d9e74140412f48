"""Responses with a chart: the figure for a script, and its data as CSV."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse, Response

from bln_search.reports.charts import Chart
from service.http.problems import ProblemException
from service.pages.rendering.heat_map_bars import replace_heat_map_by_bars

_DIGITS = 7
"""Significant digits of the numbers of a figure. The data of a chart as CSV have all digits."""


def make_figure_or_reason_response(chart: Chart | None, requirement: str) -> JSONResponse:
    """Return the Plotly figure of a chart, or what is missing if there is no chart."""
    if chart is None:
        return JSONResponse({"figure": None, "about": f"Nothing to show: {requirement}."})
    return JSONResponse(
        {"figure": _round_numbers(replace_heat_map_by_bars(chart.figure)), "about": chart.caption, "title": chart.title}
    )


def _round_numbers(value: Any) -> Any:
    """Return a part of a figure with numbers of seven digits: more are not visible, and are half of its size."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round_numbers(item) for item in value]
    return value


def make_chart_csv_response(chart: Chart | None, filename: str, requirement: str) -> Response:
    """Return the data of a chart as a file to download.

    Args:
        chart: The chart.
        filename: Name of the file without extension.
        requirement: What is missing if there is no chart.

    Raises:
        ProblemException: 404 if there is no chart.
    """
    if chart is None:
        raise ProblemException(404, "no-data", f"there is nothing to show yet: {requirement}")
    headers = {"Content-Disposition": f'attachment; filename="{filename}.csv"'}
    return Response(chart.rows_as_csv, media_type="text/csv; charset=utf-8", headers=headers)
