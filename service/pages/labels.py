"""Numbers, times and states as people read them."""

from __future__ import annotations

from datetime import datetime

from bln_search.core.configuration import InferenceConfiguration, Source, Statistic

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
