"""Charts as PNG, SVG and PDF for slides and papers, drawn by matplotlib, which needs no browser.

It draws what the charts of ranked tables consist of: points, lines, filled regions and heat maps of Plotly.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from bln_search.core.errors import MissingPackageError
from bln_search.reports.charts.image_axes import LETTER_MM, ImageAxis
from bln_search.reports.charts.image_traces import draw_heat_map, draw_scatter, shorten_texts_wider_than_cells

_METADATA: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
FORMATS = tuple(_METADATA)

_MM_PER_INCH = 25.4
_ROW_MM, _LINE_MM, _FRAME_MM, _COLOUR_BAR_MM = 3.6, 3.3, 9.0, 10.0
"""Height of a row, of a line of text, of ticks and margins, and of a color bar."""

_PLOT_SHARE = 0.6
"""Height of a plot without rows as a part of the width."""

_FONT_SIZE = 7.0
"""Points of the text, a size for print."""

_STYLE = {
    "font.size": _FONT_SIZE,
    "font.family": "DejaVu Sans",  # comes with matplotlib and has the glyphs of the charts
    "axes.labelsize": _FONT_SIZE,
    "axes.linewidth": 0.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "legend.fontsize": _FONT_SIZE - 0.5,
    "lines.linewidth": 1.1,
    "pdf.fonttype": 42,  # text that other programs can edit
    "svg.hashsalt": "bln-search",  # the same bytes each time
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
}


def draw_image(figure: Mapping[str, Any], image_format: str, *, width_mm: float, dpi: float) -> bytes:
    """Return a figure as an image with a white background.

    Args:
        figure: Data and layout for Plotly: scatter traces and heat maps.
        image_format: One of `FORMATS`.
        width_mm: Width; the height follows from the number of rows.
        dpi: Pixels per inch of a PNG.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    try:
        matplotlib, figures = import_module("matplotlib"), import_module("matplotlib.figure")
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, extra="plot") from None
    layout, traces = figure["layout"], figure["data"]
    x, y = (ImageAxis(name, layout[f"{name}axis"], [trace[name] for trace in traces]) for name in "xy")
    with matplotlib.rc_context(_STYLE):
        canvas = figures.Figure(layout="constrained")
        axes = canvas.subplots()
        has_cells = any(trace["type"] == "heatmap" for trace in traces)
        axes.grid(visible=not has_cells)
        for trace in traces:
            if trace["type"] == "heatmap":
                draw_heat_map(canvas, axes, trace)
            else:
                draw_scatter(axes, trace, x, y)
        for shape in layout.get("shapes", ()):
            colour = {"color": shape["fillcolor"], "alpha": shape["opacity"], "linewidth": 0}
            axes.axvspan(shape["x0"], shape["x1"], label=shape["name"], zorder=0, **colour)
        x.apply(axes, width_mm, title_at="right" if y.categories else "center")  # long names move the center
        y.apply(axes, width_mm, title_at="center")
        legend_lines = _draw_legend(canvas, axes, width_mm) if layout.get("showlegend") else 0
        plot_mm = _ROW_MM * len(y.categories) if y.categories else _PLOT_SHARE * width_mm
        text_mm = _LINE_MM * (legend_lines + x.title_lines(width_mm)) + x.turned_labels_mm(width_mm)
        text_mm += _COLOUR_BAR_MM if has_cells else 0.0
        canvas.set_size_inches(width_mm / _MM_PER_INCH, (_FRAME_MM + plot_mm + text_mm) / _MM_PER_INCH)
        if has_cells:
            shorten_texts_wider_than_cells(canvas, axes, len(x.categories))
        out = io.BytesIO()
        canvas.savefig(out, format=image_format, dpi=dpi, facecolor="white", metadata=_METADATA[image_format])
    return out.getvalue()


def _draw_legend(canvas: Any, axes: Any, width_mm: float) -> int:
    """Draw the legend below the axes, in as many columns as fit, and return the number of its lines."""
    handles, labels = axes.get_legend_handles_labels()
    width = (max(map(len, labels), default=0) + 6) * LETTER_MM
    columns = max(1, min(len(labels), int(width_mm / width)))
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return math.ceil(len(labels) / columns)
