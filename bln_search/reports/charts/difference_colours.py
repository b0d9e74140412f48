"""Colors of losses by their difference to the lowest one, on a logarithmic scale: small differences stay visible."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bln_search.reports.charts.value_range import find_value_range

_MAX_DECADES = 4
"""Number of powers of ten that the color scale names."""


@dataclass(frozen=True)
class DifferenceColours:
    """A color scale of differences.

    Attributes:
        unit: Difference from which the scale is logarithmic.
        span: Largest difference of the scale; larger ones have its color.
        is_cut: Whether larger ones exist.
    """

    unit: float
    span: float
    is_cut: bool

    def position(self, difference: float | None) -> float | None:
        """Position on the scale; None for a missing difference."""
        if difference is None or math.isnan(difference):
            return None
        return math.log1p(min(difference, self.span) / self.unit)

    def trace_options(self, title: str) -> dict[str, Any]:
        """Color scale and color bar of a heat map whose `z` are positions. title: What the differences are."""
        first, last = math.ceil(math.log10(self.unit)), math.floor(math.log10(self.span))
        ticks = [10.0**power for power in range(first, last + 1)][-_MAX_DECADES:]
        labels = ["0", *(f"{tick:g}" for tick in ticks)]
        if not ticks or self.span > 1.5 * ticks[-1]:
            ticks.append(self.span)
            labels.append(f"{self.span:.2g}")
        if self.is_cut:
            labels[-1] = f"≥ {labels[-1]}"
        positions = [math.log1p(tick / self.unit) for tick in (0.0, *ticks)]
        return {
            "colorscale": "Viridis",
            "zmin": 0.0,
            "zmax": math.log1p(self.span / self.unit),
            "colorbar": {
                "title": {"text": title, "side": "right"},
                "tickvals": positions,
                "ticktext": labels,
                "lenmode": "pixels",
                "len": 220,
                "y": 1,
                "yanchor": "top",
            },
        }


def find_difference_colours(differences: Iterable[float | None], margin: float | None = None) -> DifferenceColours:
    """The scale of differences of at least 0, without those far above the others (`find_value_range`).

    Args:
        differences: The differences.
        margin: Difference up to which rows are practically equal: the scale is linear up to there.
    """
    differences_in_range = find_value_range(differences, margin or 0.0)
    span = max(differences_in_range.high, margin or 0.0) or 1.0
    return DifferenceColours(margin or span / 100, span, differences_in_range.is_cut)
