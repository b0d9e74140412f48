"""Scatter traces of Plotly as SVG: points, lines, error bars, texts and filled regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bln_search.reports.charts.svg.elements import (
    LINE,
    Point,
    draw_line,
    draw_mark,
    draw_text,
    join_points,
    split_lines,
)

Place = Callable[[Any, Any], Point | None]
"""The pixel of a value on the x axis and one on the y axis; None where one of them has no position."""

_DASHES = {"solid": "", "dash": "6 4", "dot": "2 3", "dashdot": "6 3 2 3"}
_TEXT_PLACES = {"middle left": (-8, 4, "end"), "middle right": (8, 4, "start"), "bottom center": (0, 16, "middle")}
"""Offset in pixels and anchor of a text beside its point."""

_MARK_SIZE = 7


def draw_scatter(trace: Mapping[str, Any], place: Place) -> Iterator[str]:
    """Yield the elements of a trace."""
    points = [place(x, y) for x, y in zip(trace["x"], trace["y"], strict=True)]
    if trace.get("fill") == "toself":
        corners = [point for point in points if point is not None]
        yield f'<polygon points="{join_points(corners)}" fill="{trace["fillcolor"]}"/>'
        return
    colour = _find_colour(trace)
    for axis in ("x", "y"):
        bars = trace.get(f"error_{axis}")
        if bars and bars.get("visible", True):
            yield from _draw_error_bars(trace, bars, axis, place, bars.get("color") or colour)
    if "lines" in trace["mode"]:
        yield from _draw_lines(trace, points, colour)
    for index, point in enumerate(points):
        if point is not None and "markers" in trace["mode"]:
            yield draw_trace_mark(trace, index, point)
    if "text" in trace["mode"]:
        yield from _draw_texts(trace, points)


def draw_trace_mark(trace: Mapping[str, Any], index: int, point: Point) -> str:
    """The mark of a point of a trace."""
    marker = trace.get("marker", {})
    colour = _item(marker["color"], index) if "color" in marker else _find_colour(trace)
    symbol, size = _item(marker.get("symbol", "circle"), index), marker.get("size", _MARK_SIZE)
    return draw_mark(point, symbol, colour, size, marker.get("line", {}).get("width", 1.5))


def draw_trace_line(trace: Mapping[str, Any], points: Sequence[Point]) -> str:
    """A line of a trace through points."""
    line = trace["line"]
    dash = _DASHES[line.get("dash", "solid")]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{join_points(points)}" fill="none" stroke="{line["color"]}" '
        f'stroke-width="{line.get("width", 2):g}"{dashes}/>'
    )


def _draw_lines(trace: Mapping[str, Any], points: Sequence[Point | None], colour: str) -> Iterator[str]:
    """Lines, interrupted at missing points."""
    part: list[Point] = []
    for point in [*points, None]:
        if point is not None:
            part.append(point)
        elif part:
            yield draw_trace_line({**trace, "line": {"color": colour, **trace.get("line", {})}}, part)
            part = []


def _draw_error_bars(
    trace: Mapping[str, Any], bars: Mapping[str, Any], axis: str, place: Place, colour: str
) -> Iterator[str]:
    for index, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)):
        above = bars["array"][index] or 0.0
        below = bars.get("arrayminus", bars["array"])[index] or 0.0
        if place(x, y) is None:
            continue
        ends = (place(x - below, y), place(x + above, y)) if axis == "x" else (place(x, y - below), place(x, y + above))
        if ends[0] is not None and ends[1] is not None:
            yield draw_line(ends[0], ends[1], _item(colour, index), bars.get("thickness", 1.5))


def _draw_texts(trace: Mapping[str, Any], points: Sequence[Point | None]) -> Iterator[str]:
    dx, dy, anchor = _TEXT_PLACES[trace["textposition"]]
    for point, text in zip(points, trace["text"], strict=True):
        for number, line in enumerate(split_lines(text) if point else []):
            assert point is not None
            yield draw_text(point[0] + dx, point[1] + dy + number * LINE, line, anchor=anchor)


def _find_colour(trace: Mapping[str, Any]) -> Any:
    """The color of the marks, or of the lines."""
    marker, line = trace.get("marker", {}), trace.get("line", {})
    return marker.get("color") or line.get("color") or "currentColor"


def _item(value: Any, index: int) -> Any:
    """The value of a point: one for all, or a list."""
    return value[index] if isinstance(value, list) else value
