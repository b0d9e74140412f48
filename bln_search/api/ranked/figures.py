"""Charts as figures of plotly."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bln_search.core.errors import MissingPackageError
from bln_search.reports.charts.chart import Chart

_TITLE_MARGIN = 60
"""Pixels above the chart, for its title."""


def make_plotly_figure(chart: Chart) -> Any:
    """Return a `plotly.graph_objects.Figure` of a chart, with its title.

    Raises:
        MissingPackageError: plotly is not installed.
    """
    try:
        graph_objects = import_module("plotly.graph_objects")
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, extra="web") from None
    figure = graph_objects.Figure(chart.figure)
    figure.update_layout(title={"text": chart.title}, margin={"t": _TITLE_MARGIN})
    return figure
