"""Traces of Plotly drawn by matplotlib: points, lines, error bars, filled regions and heat maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import groupby
from typing import Any

from bln_search.reports.charts.image_axes import ImageAxis, plain_text

_POINTS_PER_PIXEL = 0.55
_TEXT_SIZE = 6.0
"""Size in points of texts beside marks and in cells."""

_SYMBOLS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "triangle-left": "<",
    "triangle-right": ">",
    "cross": "P",
    "x": "X",
    "star": "*",
}
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_TEXT_PLACES = {
    "middle left": (-7, 0, "right", "center"),
    "middle right": (7, 0, "left", "center"),
    "bottom center": (0, -5, "center", "top"),
}
"""Offset in points and alignment of a text beside its point."""


def draw_scatter(axes: Any, trace: Mapping[str, Any], x_axis: ImageAxis, y_axis: ImageAxis) -> None:
    """Lines, points, error bars, texts, or a filled region."""
    x, y = x_axis.positions(trace["x"]), y_axis.positions(trace["y"])
    label = plain_text(trace["name"]) if "name" in trace and trace.get("showlegend", True) else "_nolegend_"
    if trace.get("fill") == "toself":
        axes.fill(x, y, color=_colour(trace["fillcolor"]), linewidth=0, label=label, zorder=0)
        return
    for name, bars in (("xerr", trace.get("error_x")), ("yerr", trace.get("error_y"))):
        if bars and bars.get("visible", True):
            sides = [[half or 0.0 for half in bars[side]] for side in ("arrayminus", "array") if side in bars]
            colour = bars.get("color") or trace["marker"].get("color") or trace["line"]["color"]
            lengths = {name: sides if len(sides) > 1 else sides[0]}
            axes.errorbar(x, y, **lengths, fmt="none", ecolor=colour, elinewidth=0.8)
    if "lines" in trace["mode"]:
        style = {"color": trace["line"]["color"], "linestyle": _DASHES[trace["line"].get("dash", "solid")]}
        axes.plot(x, y, label=label, **style, **_marker_style(trace["marker"], 0, style["color"]))
    else:
        _draw_points(axes, trace["marker"], x, y, label)
    if "text" in trace["mode"]:
        dx, dy, horizontal, vertical = _TEXT_PLACES[trace["textposition"]]
        for place, text in zip(zip(x, y, strict=True), trace["text"], strict=True):
            place_text = {"textcoords": "offset points", "ha": horizontal, "va": vertical, "fontsize": _TEXT_SIZE}
            axes.annotate(plain_text(text), place, (dx, dy), **place_text)


def _draw_points(axes: Any, marker: Mapping[str, Any], x: Sequence[float], y: Sequence[float], label: str) -> None:
    """Points, those of one style together."""

    def style_of(position: int) -> tuple[Any, Any]:
        return _item(marker["symbol"], position), _item(marker["color"], position)

    for _, members in groupby(sorted(range(len(x)), key=style_of), key=style_of):
        positions = list(members)
        style = _marker_style(marker, positions[0], "")
        axes.plot([x[at] for at in positions], [y[at] for at in positions], linestyle="none", label=label, **style)
        label = "_nolegend_"


def _marker_style(marker: Mapping[str, Any], position: int, line_colour: str) -> dict[str, Any]:
    symbol = _item(marker["symbol"], position)
    colour = _item(marker["color"], position) if "color" in marker else line_colour
    return {
        "marker": _SYMBOLS[symbol.removesuffix("-open")],
        "markersize": _POINTS_PER_PIXEL * marker.get("size", 7),
        "markerfacecolor": "none" if symbol.endswith("-open") else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 0.6 * marker.get("line", {}).get("width", 1),
    }


def _item(value: Any, position: int) -> Any:
    """The value of a point: one for all, or a list."""
    return value[position] if isinstance(value, list) else value


def draw_heat_map(canvas: Any, axes: Any, trace: Mapping[str, Any]) -> None:
    """Cells with their texts, and the color bar below them."""
    scale = trace["colorscale"]
    if scale == "Viridis":
        colour_map = import_module("matplotlib").colormaps["viridis"]
    else:
        colour_map = import_module("matplotlib.colors").LinearSegmentedColormap.from_list("", scale)
    values = [[math.nan if value is None else value for value in line] for line in trace["z"]]
    limits = {"vmin": trace["zmin"], "vmax": trace["zmax"]}
    edges = ([position - 0.5 for position in range(count + 1)] for count in (len(values[0]), len(values)))
    cells = axes.pcolormesh(*edges, values, cmap=colour_map, edgecolors="white", linewidth=0.5, **limits)
    for row, line in enumerate(trace["text"]):
        for column, text in enumerate(line):
            red, green, blue, _ = cells.to_rgba(values[row][column])
            is_bright = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18
            style = {"color": "black" if is_bright else "white", "fontsize": _TEXT_SIZE}
            axes.text(column, row, plain_text(text), ha="center", va="center", **style)
    bar = canvas.colorbar(cells, ax=axes, location="bottom", aspect=40, shrink=0.8)
    if "tickvals" in trace["colorbar"]:
        bar.set_ticks(trace["colorbar"]["tickvals"], labels=trace["colorbar"]["ticktext"])
    bar.set_label(plain_text(trace["colorbar"]["title"]["text"]))


def shorten_texts_wider_than_cells(canvas: Any, axes: Any, columns: int) -> None:
    """Leave of the text of a cell that has no room the mark in front, or nothing."""
    canvas.draw_without_rendering()  # which lays out the axes
    width = axes.get_window_extent().width / columns
    for text in axes.texts:
        if text.get_window_extent().width > width:
            mark, _, value = text.get_text().partition(" ")
            text.set_text(mark if value else "")


def _colour(text: str) -> Any:
    """A color of Plotly, `#rrggbb` or `rgba(…)`, for matplotlib."""
    if not text.startswith("rgba"):
        return text
    red, green, blue, opacity = map(float, text.removeprefix("rgba(").removesuffix(")").split(","))
    return red / 255, green / 255, blue / 255, opacity
