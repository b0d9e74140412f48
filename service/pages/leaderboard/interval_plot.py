"""Confidence intervals as small pictures in the cells of a column, on one scale (a forest plot)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import format_interval

WIDTH, HEIGHT = 150, 18
"""Size of a picture in pixels."""

_MARGIN = 5
_OUTLIER_FACTOR = 1.5
"""The scale ends at this multiple of the distance from the lowest to the median end; longer lines end in an arrow."""


@dataclass(frozen=True)
class IntervalScale:
    """The scale that the pictures of one page share. reference: mean of the row that they are compared with."""

    low: float
    high: float
    reference: float | None

    def position_in_pixels(self, value: float) -> float:
        """Horizontal position in pixels, within the picture."""
        share = (value - self.low) / (self.high - self.low)
        return round(_MARGIN + min(1.0, max(0.0, share)) * (WIDTH - 2 * _MARGIN), 1)


def find_interval_scale(
    intervals: Sequence[ConfidenceInterval | None], reference: float | None
) -> IntervalScale | None:
    """Return the scale of some intervals; None without a value."""
    known = [interval for interval in intervals if interval is not None]
    if not known:
        return None
    lows = [interval.mean if interval.low is None else interval.low for interval in known]
    highs = [interval.mean if interval.high is None else interval.high for interval in known]
    extra = [] if reference is None else [reference]
    low, high = min([*lows, *extra]), max([*highs, *extra])
    limit = low + _OUTLIER_FACTOR * (statistics.median(highs) - low)
    high = min(high, max([limit, *extra])) if limit > low else high
    return IntervalScale(low, high if high > low else low + 1.0, reference)


def render_interval_svg(interval: ConfidenceInterval | None, scale: IntervalScale | None) -> Markup:
    """Return the picture of an interval: its line, its mean, and the reference as a vertical line.

    The text alternative has the figures. The picture has no style attribute, which the content security policy forbids.
    """
    if interval is None or scale is None:
        return Markup("–")
    middle = HEIGHT / 2
    parts = [
        Markup('<svg class="interval" role="img" width="{}" height="{}" viewBox="0 0 {} {}" aria-label="{}">').format(
            WIDTH, HEIGHT, WIDTH, HEIGHT, _interval_text_alternative(interval)
        )
    ]
    if scale.reference is not None:
        x = scale.position_in_pixels(scale.reference)
        parts.append(Markup('<line class="reference" x1="{}" x2="{}" y1="0" y2="{}"/>').format(x, x, HEIGHT))
    if interval.low is not None and interval.high is not None:
        first, last = scale.position_in_pixels(interval.low), scale.position_in_pixels(interval.high)
        parts.append(Markup('<line x1="{}" x2="{}" y1="{}" y2="{}"/>').format(first, last, middle, middle))
    if max(interval.mean, interval.high or interval.mean) > scale.high:
        parts.append(Markup('<path d="M{} {} l5 4 l-5 4"/>').format(WIDTH - _MARGIN, middle - 4))
    if interval.mean <= scale.high:
        parts.append(
            Markup('<circle cx="{}" cy="{}" r="3.5"/>').format(scale.position_in_pixels(interval.mean), middle)
        )
    return Markup("").join([*parts, Markup("</svg>")])


def _interval_text_alternative(interval: ConfidenceInterval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.mean:.4f}, without an interval"
    return f"{format_interval(interval)}: from {interval.low:.4f} to {interval.high:.4f}"
