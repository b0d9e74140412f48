"""Numbers, times and states as people read them."""

from __future__ import annotations

import math
from datetime import datetime

from bln_search.core.configuration import InferenceConfiguration, Source, Statistic
from bln_search.ranking.interval import Interval, interval_around
from bln_search.ranking.leaderboard import Summary

_STATISTICS = {
    Statistic.BATCH_MEAN: "mini-batch mean",
    Statistic.BATCH_DEVIATION: "mini-batch deviation",
    Statistic.FEATURE_MEAN: "feature mean",
    Statistic.FEATURE_DEVIATION: "feature deviation",
}
_SOURCES = {
    Source.POPULATION: "population",
    Source.MINI_BATCH: "mini-batch",
    Source.MEMORY: "memory",
    Source.ABSENT: "none",
}
STATE_MARKS = {
    "accepted": "○",
    "running": "▶",
    "paused": "Ⅱ",
    "complete": "✔",
    "interrupted": "◌",
    "cancelled": "⊘",
    "failed": "✖",
    "waiting": "○",
    "trained": "◐",
    "finished": "✔",
    "diverged": "≋",
    "pruned": "✂",
}
"""Shape besides colour: what a state looks like without any."""


def rounded(interval: Interval | None, factor: float = 1.0, digits: int = 4) -> str:
    """The mean and half its interval, to two digits of that; digits: behind the point where there is no interval."""
    if interval is None:
        return "–"
    mean, half = interval.mean * factor, None if interval.half is None else interval.half * factor
    if half is None or half <= 0:
        return f"{mean:.{digits}f}"
    places = min(8, max(0, 1 - math.floor(math.log10(half))))
    return f"{mean:.{places}f} ± {half:.{places}f}"


def signed(interval: Interval | None) -> str:
    """A difference, with its sign."""
    text = rounded(interval)
    return text if text.startswith(("–", "-")) else f"+{text}"


def over_seeds(summary: Summary | None, seeds: int) -> Interval | None:
    """The interval of a mean over seeds."""
    return None if summary is None else interval_around(summary.mean, summary.deviation, seeds)


def duration(seconds: float | None) -> str:
    """A length of time, in the two largest units that say something."""
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    for size, unit, smaller, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{whole} s"


def moment(at: datetime) -> str:
    """In UTC; the browser makes it local."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def switches(configuration: InferenceConfiguration) -> list[tuple[str, str, str]]:
    """Letter, style and words of each of the four statistics."""
    return [
        (source.value, _SOURCES[source], f"{_STATISTICS[statistic]}: {_SOURCES[source]}")
        for statistic, source in configuration.sources.items()
    ]


def computed(configuration: InferenceConfiguration) -> int:
    """How many statistics have to be computed from the mini-batch at inference."""
    return sum(source is Source.MINI_BATCH for source in configuration.sources.values())
