"""Responses with a chart: the figure for a script, and its data as CSV."""

from __future__ import annotations

from fastapi.responses import JSONResponse, Response

from bln_search.reports.charts import Chart
from service.http.problems import ProblemException


def figure_response(chart: Chart | None, requirement: str) -> JSONResponse:
    """Return the Plotly figure of a chart, or what is missing if there is no chart."""
    if chart is None:
        return JSONResponse({"figure": None, "about": f"Nothing to show yet: {requirement}."})
    return JSONResponse({"figure": chart.figure, "about": chart.caption, "title": chart.title})


def csv_response(chart: Chart | None, filename: str, requirement: str) -> Response:
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
    return Response(chart.csv, media_type="text/csv; charset=utf-8", headers=headers)
