"""Elements of SVG: text that is escaped, lines, and marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

LETTER = 7.0
"""Mean width in pixels of a letter."""

LINE = 15.0
"""Height in pixels of a line of text."""

Point = tuple[float, float]

_POLYGONS: Mapping[str, Sequence[Point]] = {
    "square": ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)),
    "diamond": ((0, -1.1), (1.1, 0), (0, 1.1), (-1.1, 0)),
    "triangle-up": ((0, -1), (1, 0.8), (-1, 0.8)),
    "triangle-down": ((0, 1), (1, -0.8), (-1, -0.8)),
    "triangle-left": ((-1, 0), (0.8, -1), (0.8, 1)),
    "triangle-right": ((1, 0), (-0.8, -1), (-0.8, 1)),
    "star": tuple(
        (radius * math.sin(step * math.pi / 5), -radius * math.cos(step * math.pi / 5))
        for step, radius in enumerate((1.2, 0.5) * 5)
    ),
}
"""Corners of a mark of radius 1."""

_STROKES = {"cross": "M{0} 0H-{0}M0 {0}V-{0}", "x": "M{0} {0}L-{0} -{0}M-{0} {0}L{0} -{0}"}


def split_lines(text: str) -> list[str]:
    """The lines of a text of Plotly."""
    return text.split("<br>")


def text_width(text: str) -> float:
    """About how wide a text is, in pixels."""
    return LETTER * len(text)


def draw_text(x: float, y: float, text: str, *, anchor: str = "start", turn: int = 0, fill: str = "") -> str:
    """A line of text. turn: Degrees around its anchor."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    colour = f' fill="{fill}"' if fill else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}{colour}>{escape(text)}</text>'


def draw_line(start: Point, end: Point, colour: str, width: float = 1.0, opacity: float = 1.0) -> str:
    """A straight line."""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{escape(colour)}" stroke-width="{width:g}" opacity="{opacity:g}"/>'
    )


def join_points(points: Sequence[Point]) -> str:
    """Points of a polygon or a line."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def draw_mark(place: Point, symbol: str, colour: str, size: float, line_width: float = 1.5) -> str:
    """A mark of Plotly; those that end in `-open` are not filled. size: Its diameter in pixels."""
    shape, radius = symbol.removesuffix("-open"), size / 2
    fill = "none" if symbol.endswith("-open") or shape in _STROKES else escape(colour)
    style = f'fill="{fill}" stroke="{escape(colour)}" stroke-width="{line_width:g}"'
    x, y = place
    if shape in _STROKES:
        return f'<path transform="translate({x:.1f} {y:.1f})" d="{_STROKES[shape].format(radius)}" {style}/>'
    if shape in _POLYGONS:
        corners = [(x + radius * dx, y + radius * dy) for dx, dy in _POLYGONS[shape]]
        return f'<polygon points="{join_points(corners)}" {style}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {style}/>'
