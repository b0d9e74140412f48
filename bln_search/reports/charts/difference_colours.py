"""Colors of losses by their difference to the lowest one, on a logarithmic scale: small differences stay visible."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bln_search.reports.charts.value_range import find_value_range

_MAX_DECADES = 4
"""Number of powers of ten that the color scale names."""

_LAST_DECADE = 0.88
"""Part of the scale from which the label of a power of ten has no room beside that of the end."""


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
        end = math.log1p(self.span / self.unit)
        decades = [10.0**power for power in range(first, last + 1)][-_MAX_DECADES:]
        ticks = [0.0, *(tick for tick in decades if math.log1p(tick / self.unit) < _LAST_DECADE * end), self.span]
        labels = [f"{float(f'{tick:.2g}'):g}" for tick in ticks]
        if self.is_cut:
            labels[-1] = f"≥ {labels[-1]}"
        return {
            "colorscale": "Viridis",
            "zmin": 0.0,
            "zmax": end,
            "colorbar": {
                "title": {"text": title, "side": "right"},
                "tickvals": [math.log1p(tick / self.unit) for tick in ticks],
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
