"""Draw a chart as SVG: frame, ticks, titles, traces and legend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.svg.axis_scale import AxisScale
from bln_search.reports.charts.svg.elements import LINE, Point, draw_line, draw_text, split_lines, text_width
from bln_search.reports.charts.svg.heat_map import BAR_HEIGHT, draw_cells, draw_colour_bar
from bln_search.reports.charts.svg.traces import draw_scatter, draw_trace_line, draw_trace_mark

_WIDTH = 680.0
_ROW_HEIGHT, _PLOT_HEIGHT = 20.0, 220.0
"""Pixels of a row, and of a plot without rows."""

_MAX_LABEL_WIDTH = 240.0
_GAP, _MARGIN = 8.0, 16.0
_EDGE = 6.0
"""Pixels left of the labels of rows, whose widths are estimates."""

_KEY = 18.0
"""Width of the mark of a legend entry."""


@dataclass(frozen=True)
class _Frame:
    """The region of the plot in pixels, and its axes."""

    left: float
    top: float
    width: float
    height: float
    x: AxisScale
    y: AxisScale

    def place(self, x: Any, y: Any) -> Point | None:
        """The pixel of two values."""
        across, up = self.x.part(x), self.y.part(y)
        if across is None or up is None:
            return None
        return self.left + across * self.width, self.top + (1.0 - up) * self.height

    @property
    def bottom(self) -> float:
        return self.top + self.height


def draw_svg(chart: Chart) -> str:
    """Return a chart as an `<svg>` element: scatter traces and heat maps of Plotly.

    Text and axes have the color of the text around it, so that it fits light and dark pages. It is an image with a
    label for screen readers, and it contains no script, no style and no address.
    """
    layout, traces = chart.figure["layout"], chart.figure["data"]
    x, y = (AxisScale(layout[f"{name}axis"], [trace[name] for trace in traces]) for name in "xy")
    frame = _lay_out(x, y, is_x_on_top=layout["xaxis"].get("side") == "top")
    heat_map = next((trace for trace in traces if trace["type"] == "heatmap"), None)
    elements = [*_draw_axes(frame, layout, has_grid=heat_map is None)]
    for shape in layout.get("shapes", ()):
        elements += _draw_band(frame, shape)
    if heat_map is not None:
        elements += draw_cells(
            heat_map, frame.place, (frame.width / len(x.categories), frame.height / len(y.categories))
        )
    elements += [part for trace in traces if trace["type"] == "scatter" for part in draw_scatter(trace, frame.place)]
    end = _x_labels_end(frame, layout)
    elements += [
        draw_text(frame.left + frame.width / 2, end + number * LINE, line, anchor="middle")
        for number, line in enumerate(split_lines(x.title), start=1)
        if line
    ]
    end += LINE * sum(map(bool, split_lines(x.title)))
    if heat_map is not None:
        elements += draw_colour_bar(heat_map, frame.left + _GAP, end + _MARGIN)
        end += _MARGIN + BAR_HEIGHT
    elif layout.get("showlegend"):
        legend, end = _draw_legend(traces, layout, end + _MARGIN)
        elements += legend
    size = f'viewBox="0 0 {_WIDTH:g} {end + _GAP:.0f}" width="{_WIDTH:g}"'
    return (
        f'<svg {size} role="img" aria-label="{escape(chart.title)}" font-size="12" fill="currentColor">'
        f"{''.join(elements)}</svg>"
    )


def _lay_out(x: AxisScale, y: AxisScale, *, is_x_on_top: bool) -> _Frame:
    widest = max((text_width(label) for _, label in y.list_ticks()), default=0.0)
    left = (LINE + _GAP if y.title else _EDGE) + min(widest, _MAX_LABEL_WIDTH) + _GAP
    height = _ROW_HEIGHT * len(y.categories) if y.categories else _PLOT_HEIGHT
    width = _WIDTH - left - _MARGIN
    top = _GAP + (_x_labels_height(x, width) if is_x_on_top else 0.0)
    return _Frame(left, top, width, height, x, y)


def _x_labels_height(x: AxisScale, width: float) -> float:
    """Height of the labels of the x axis, which stand at 45° where they have no room side by side."""
    widest = max((text_width(label) for _, label in x.list_ticks()), default=0.0)
    return LINE + (widest * math.sqrt(0.5) if _are_labels_turned(x, width) else 0.0)


def _are_labels_turned(x: AxisScale, width: float) -> bool:
    widest = max((text_width(label) for _, label in x.list_ticks()), default=0.0)
    return bool(x.categories) and widest > width / len(x.categories) - _GAP


def _x_labels_end(frame: _Frame, layout: Mapping[str, Any]) -> float:
    is_on_top = layout["xaxis"].get("side") == "top"
    return frame.bottom + (0.0 if is_on_top else _x_labels_height(frame.x, frame.width))


def _draw_axes(frame: _Frame, layout: Mapping[str, Any], *, has_grid: bool) -> Iterator[str]:
    """Lines of the grid, labels of ticks and the title of the y axis."""
    right, is_on_top = frame.left + frame.width, layout["xaxis"].get("side") == "top"
    is_turned = _are_labels_turned(frame.x, frame.width)
    for part, label in frame.x.list_ticks():
        at = frame.left + part * frame.width
        if has_grid:
            yield draw_line((at, frame.top), (at, frame.bottom), "currentColor", opacity=0.15)
        low = frame.top - 5 if is_on_top else frame.bottom + LINE
        if is_turned:
            yield draw_text(at, low, label, anchor="start" if is_on_top else "end", turn=-45)
        else:
            yield draw_text(at, low, label, anchor="middle")
    for part, label in frame.y.list_ticks():
        at = frame.top + (1.0 - part) * frame.height
        if has_grid:
            yield draw_line((frame.left, at), (right, at), "currentColor", opacity=0.15)
        yield draw_text(frame.left - _GAP, at + 4, label, anchor="end")
    if has_grid:
        yield draw_line((frame.left, frame.bottom), (right, frame.bottom), "currentColor", opacity=0.6)
    zero = frame.x.part(0.0) if layout["xaxis"].get("zeroline") else None
    if zero is not None:
        at = frame.left + zero * frame.width
        yield draw_line((at, frame.top), (at, frame.bottom), "currentColor", opacity=0.6)
    if frame.y.title:
        title = " ".join(split_lines(frame.y.title))
        yield draw_text(LINE - 3, frame.top + frame.height / 2, title, anchor="middle", turn=-90)


def _draw_band(frame: _Frame, shape: Mapping[str, Any]) -> Iterator[str]:
    """A shaded region along the x axis, over the whole height."""
    start, end = frame.x.part(shape["x0"]), frame.x.part(shape["x1"])
    if start is not None and end is not None:
        yield (
            f'<rect x="{frame.left + start * frame.width:.1f}" y="{frame.top:.1f}" '
            f'width="{(end - start) * frame.width:.1f}" height="{frame.height:.1f}" fill="{shape["fillcolor"]}" '
            f'opacity="{shape["opacity"]}"/>'
        )


def _draw_legend(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], top: float) -> tuple[list[str], float]:
    """The names of traces and regions with their marks, in lines; also where they end."""
    named = [
        *(trace for trace in traces if trace.get("name") and trace.get("showlegend", True)),
        *layout.get("shapes", ()),
    ]
    elements: list[str] = []
    left, line = _GAP, top
    for item in named:
        width = _KEY + text_width(item["name"]) + _MARGIN
        if left > _GAP and left + width > _WIDTH:
            left, line = _GAP, line + LINE + 2
        elements += [*_draw_key(item, (left + _KEY / 2, line)), draw_text(left + _KEY + 2, line + 4, item["name"])]
        left += width
    return elements, line + _GAP if named else top


def _draw_key(item: Mapping[str, Any], middle: Point) -> Iterator[str]:
    """The mark of a trace or a region beside its name."""
    x, y = middle
    if item["type"] == "rect" or item.get("fill"):
        fill = f'fill="{item["fillcolor"]}" opacity="{item.get("opacity", 1)}"'
        yield f'<rect x="{x - 8:.1f}" y="{y - 5:.1f}" width="16" height="10" {fill}/>'
        return
    if "lines" in item["mode"]:
        yield draw_trace_line(item, [(x - 9, y), (x + 9, y)])
    if "markers" in item["mode"]:
        marker = item.get("marker", {})
        yield draw_trace_mark({**item, "marker": {**marker, "size": min(marker.get("size", 8), 10)}}, 0, middle)
