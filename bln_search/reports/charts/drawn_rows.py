"""The rows of a table that a chart draws: how many, their labels, and the marks of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bln_search.reports.charts.chart import COLOURS, make_labels_unique

MAX_DRAWN_ROWS = 40
_LABEL_LETTERS = 32
"""Letters of a label; a longer one keeps its ends."""

_ROW_HEIGHT, _FRAME_HEIGHT, _MIN_HEIGHT = 22, 190, 300
"""Pixels of a row, of everything else, and of the smallest chart."""

RECOMMENDED, IN_USE = "recommended", "in use"
GLYPHS = {RECOMMENDED: "★", IN_USE: "●"}
"""The marks in a label or a cell."""

_SYMBOLS = {RECOMMENDED: ("circle-open", COLOURS[2]), IN_USE: ("square-open", COLOURS[3])}
"""The marks around a point, with their colors."""

Marks = dict[str, int | None]
"""Position of the recommended row and of the row in use; None without one."""


def positions_of_drawn_rows(count: int, marks: Marks) -> list[int]:
    """The first rows, and the marked ones."""
    marked = {position for position in marks.values() if position is not None}
    return sorted({*range(min(count, MAX_DRAWN_ROWS)), *marked})


def drawn_rows_note(drawn: int, count: int) -> str:
    """How many rows are drawn; empty where all are."""
    return "" if drawn == count else f"{drawn} of {count:,} rows"


def category_axis(names: Sequence[str], **options: Any) -> dict[str, Any]:
    """An axis of names, of which long ones are shortened at their ticks."""
    labels = make_labels_unique(map(_shorten, names))
    ticks = {} if labels == list(names) else {"tickmode": "array", "tickvals": list(names), "ticktext": labels}
    return {"type": "category", **ticks, **options}


def _shorten(label: str) -> str:
    half = (_LABEL_LETTERS - 1) // 2
    return label if len(label) <= _LABEL_LETTERS else f"{label[:half]}…{label[-half:]}"


def chart_height(rows: int) -> int:
    """Height in pixels at which the labels of rows do not overlap."""
    return max(_MIN_HEIGHT, _FRAME_HEIGHT + _ROW_HEIGHT * rows)


def mark_traces(marks: Marks, labels: Sequence[str], values: Sequence[float | None]) -> list[dict[str, Any]]:
    """Rings around the points of marked rows.

    Args:
        marks: The marked rows.
        labels: Labels of the rows, on the y axis.
        values: Their values, on the x axis.
    """
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [values[position]],
            "y": [labels[position]],
            "marker": {"symbol": symbol, "color": colour, "size": 17, "line": {"width": 2.5}},
            "hoverinfo": "skip",
        }
        for name, (symbol, colour) in _SYMBOLS.items()
        if (position := marks.get(name)) is not None
    ]


def mark_labels(marks: Marks, labels: Sequence[str]) -> list[str]:
    """The labels with the glyphs of marked rows in front."""
    glyphs: dict[int, str] = {}
    for name, position in marks.items():
        if position is not None:
            glyphs[position] = f"{glyphs.get(position, '')}{GLYPHS[name]} "
    return [f"{glyphs.get(position, '')}{label}" for position, label in enumerate(labels)]


def glyph_legend(marks: Marks) -> str:
    """What the glyphs of a chart mean; empty without marked rows."""
    return ", ".join(f"{GLYPHS[name]} {name}" for name, position in marks.items() if position is not None)


def margin_band(low: float, high: float, name: str) -> list[dict[str, Any]]:
    """The region of rows that are practically equal to the best one, along the x axis; none without a width.

    Args:
        low: Its lower end.
        high: Its upper end.
        name: Its name in the legend.
    """
    if high <= low:
        return []
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": low,
            "x1": high,
            "y0": 0,
            "y1": 1,
            "fillcolor": COLOURS[2],
            "opacity": 0.15,
            "line": {"width": 0},
            "layer": "below",
            "showlegend": True,
            "name": name,
        }
    ]


def margin_text(margin: float, unit: str) -> str:
    """What the margin is, for a legend."""
    return f"practically equal: margin {margin:.2g} {unit}".rstrip()
