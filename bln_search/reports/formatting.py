"""Figures as people read them."""

from __future__ import annotations

import math

from bln_search.ranking.leaderboard import Summary
from bln_search.ranking.statistics.intervals import Interval, interval_around


def rounded(interval: Interval | None, factor: float = 1.0, digits: int = 4) -> str:
    """The mean and half its interval, to two digits of that; digits: behind the point where that is none, or zero."""
    if interval is None:
        return "–"
    mean, half = interval.mean * factor, None if interval.half is None else interval.half * factor
    if half is None:
        return f"{mean:.{digits}f}"
    if half <= 0:
        return f"{mean:.{digits}f} ± 0"
    places = min(8, max(0, 1 - math.floor(math.log10(half))))
    return f"{mean:.{places}f} ± {half:.{places}f}"


def signed(interval: Interval | None) -> str:
    """A difference, with its sign."""
    text = rounded(interval)
    return text if text.startswith(("–", "-")) else f"+{text}"


def over_seeds(summary: Summary | None, seeds: int) -> Interval | None:
    """The interval of a mean over seeds."""
    return None if summary is None else interval_around(summary.mean, summary.deviation, seeds)
