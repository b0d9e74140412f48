"""The range of values that a chart resolves: a few diverged rows do not hide the differences between the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bln_search.reports.formatting import format_loss

_QUARTILES, _MARGINS = 10.0, 300.0
"""A value is out of range if it is above the lowest by more than both of these multiples."""

_PADDING = 0.06
"""Part of the range that an axis shows beyond it."""

ABOVE = "▲"
"""Marks a value above the range."""


class AxisEnd(NamedTuple):
    """How values beyond an end of an axis are marked.

    Attributes:
        along: The axis of the values.
        symbol: Symbol of the mark.
        text_position: Where the value stands.
    """

    along: str
    symbol: str
    text_position: str


RIGHT = AxisEnd("x", "triangle-right", "middle left")
LEFT = AxisEnd("x", "triangle-left", "middle right")
TOP = AxisEnd("y", "triangle-up", "bottom center")


@dataclass(frozen=True)
class ValueRange:
    """The range of an axis or a color scale.

    Attributes:
        low: The lowest value.
        high: The largest value in the range.
        is_cut: Whether larger values exist.
        padding: What an axis shows beyond the range on each side: intervals up to the width of the range.
    """

    low: float
    high: float
    is_cut: bool
    padding: float

    @property
    def end(self) -> float:
        """Position of values above the range on an axis."""
        return self.high + self.padding

    @property
    def axis_range(self) -> list[float]:
        """The ends of an axis."""
        return [self.low - self.padding, self.end + self.padding / 4]

    def contains(self, value: float | None) -> bool:
        """Whether an axis shows a value at its own position."""
        return value is not None and value <= self.end

    def position(self, value: float | None) -> float | None:
        """Position of a value on an axis; None for a missing value."""
        return value if value is None or self.contains(value) else self.end

    def above_range_traces(self, points: Iterable[tuple[Any, float | None]], end: AxisEnd) -> list[dict[str, Any]]:
        """Marks, at the end of the axis, of the points above the range.

        Args:
            points: Category or position on the other axis, and value, of all points.
            end: Which end it is.
        """
        above = [(place, value) for place, value in points if value is not None and not self.contains(value)]
        return out_of_range_traces(above, self.end, end)


def find_value_range(
    values: Iterable[float | None], margin: float | None = None, halves: Iterable[float | None] = ()
) -> ValueRange:
    """The range of the values without those far above.

    A value is far above if its distance to the lowest one is more than ten times that of the best quarter, and more
    than 300 margins: 3 nats for a margin of 0.01.

    Args:
        values: The values; missing ones, infinity and NaN are ignored.
        margin: Difference up to which values are practically equal; by default 1 % of the lowest one.
        halves: Half-width of the confidence interval of each value; those of few networks can be very wide.
    """
    listed = list(values)
    finite = sorted(value for value in listed if value is not None and math.isfinite(value))
    if not finite:
        return ValueRange(0.0, 0.0, is_cut=False, padding=1.0)
    low = finite[0]
    quarter = finite[(len(finite) - 1) // 4]
    reach = max(_QUARTILES * (quarter - low), _MARGINS * (abs(low) / 100 if margin is None else margin))
    high = max(value for value in finite if value - low <= reach) if reach else finite[-1]
    width = high - low or abs(high) or 1.0
    shown = [half for value, half in zip(listed, halves, strict=False) if half and value is not None and value <= high]
    interval = 1.1 * max(filter(math.isfinite, shown), default=0.0)
    return ValueRange(low, high, is_cut=high < finite[-1], padding=max(_PADDING * width, min(interval, width)))


def out_of_range_traces(points: Sequence[tuple[Any, float]], at: float, end: AxisEnd) -> list[dict[str, Any]]:
    """Marks with their values at the end of an axis, for values beyond its range; none without points.

    Values of one place are in lines below each other.

    Args:
        points: Category or position on the other axis, and value.
        at: Position on the axis of the values.
        end: The end of the axis.
    """
    if not points:
        return []
    across = "y" if end.along == "x" else "x"
    texts: dict[Any, list[str]] = {}
    for place, value in points:
        texts.setdefault(place, []).append(format_loss(value))
    return [
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": "beyond the axis: value as text",
            end.along: [at] * len(texts),
            across: list(texts),
            "text": ["<br>".join(dict.fromkeys(values)) for values in texts.values()],
            "textposition": end.text_position,
            "textfont": {"size": 11},
            "marker": {"color": "#808080", "symbol": end.symbol, "size": 9},
            "hovertemplate": f"%{{{across}}}: %{{text}}<extra></extra>",
        }
    ]
