"""Charts as plain data: a figure that Plotly draws, and the rows it shows. Nothing here loads Plotly."""

from bln_search.reports.charts.chart import Chart

__all__ = ["Chart"]
