"""Tables of results with a chart: as a figure of Plotly, and as an image for slides and papers."""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from bln_search.api.ranked.result_table import ResultTable
from bln_search.core.errors import ModelError, OutputFileError
from bln_search.core.files.atomic import write_atomically
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.image import FORMATS, draw_image

_TITLE_MARGIN = 60
"""Pixels above a chart, for its title."""

_WIDTHS_MM, _RESOLUTIONS = (30, 500), (30, 1_200)
"""Smallest and largest width and resolution of an image."""


class ChartedTable(ResultTable):
    """A table that has a chart."""

    @abstractmethod
    def _make_chart(self) -> Chart:
        """The chart. Raises ModelError without anything to draw."""

    def _make_picture(self) -> Chart | None:
        """The chart of `plot`; None without anything to draw."""
        try:
            return self._make_chart()
        except ModelError:
            return None

    def plot(self) -> Any:
        """The chart as a `plotly.graph_objects.Figure`.

        Raises:
            ModelError: There is nothing to draw.
        """
        return make_plotly_figure(self._make_chart())

    def savefig(self, path: str | PathLike[str], *, width_mm: float = 85, dpi: float = 300) -> Path:
        """Write the chart of `plot` as an image for slides and papers: white background, no title, text of 7 points.

        No browser is needed. Equal charts have equal bytes with the same version of matplotlib.

        Args:
            path: The file; its suffix is `.png`, `.svg` or `.pdf`.
            width_mm: Width: 85 for a column, 170 for a page. The height follows from the number of rows.
            dpi: Pixels per inch of a PNG.

        Returns:
            The file.

        Raises:
            MissingPackageError: matplotlib is not installed.
            ModelError: There is nothing to draw.
            OutputFileError: The file cannot be written.
            StorageFullError: The disk is full.
            ValueError: The suffix, the width or the resolution is none of these.
        """
        return write_image(self._make_chart(), path, width_mm=width_mm, dpi=dpi)


def make_plotly_figure(chart: Chart) -> Any:
    """Return a `plotly.graph_objects.Figure` of a chart, with its title and a white background."""
    graph_objects = import_module("plotly.graph_objects")  # it takes long to load
    figure = graph_objects.Figure(chart.figure)
    figure.update_layout(title={"text": chart.title}, margin={"t": _TITLE_MARGIN}, template="plotly_white")
    return figure


def write_image(chart: Chart, path: str | PathLike[str], *, width_mm: float, dpi: float) -> Path:
    """Write a chart as an image; arguments and errors as of `ChartedTable.savefig`."""
    file = Path(path)
    image_format = file.suffix.lower().removeprefix(".")
    if image_format not in FORMATS:
        raise ValueError(f"{file}: an image is written as {', '.join(f'.{name}' for name in FORMATS)}")
    for name, value, (least, most) in (("width_mm", width_mm, _WIDTHS_MM), ("dpi", dpi, _RESOLUTIONS)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"{name} is a number from {least} to {most:,}, not {value!r}")
    image = draw_image(chart.figure, image_format, width_mm=width_mm, dpi=dpi)
    try:
        write_atomically(file, image, mode=0o644)
    except OSError as error:
        raise OutputFileError(f"{file} cannot be written: {error}") from None
    return file
