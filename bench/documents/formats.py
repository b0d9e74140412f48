"""Formats of figures in the templates of generated blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

from bln_search.ranking.statistics.intervals import CONFIDENCE_LEVEL, mean_with_t_interval
from bln_search.ranking.statistics.student_t import two_sided_t_quantile

Spread = Mapping[str, float] | Sequence[float]
"""Median, `min` and `max`, or the values themselves."""


def fmt(value: float, spec: str) -> str:
    """Return a value in the format of `str.format`."""
    return format(value, spec)


def difference_text(value: float) -> str:
    """Return a relative difference with one digit."""
    return f"{value:.0e}" if value else "0"


def spread_text(values: Spread, spec: str = ".2f") -> str:
    """Return `median [smallest, largest]`; the median alone where all are equal, `–` without values."""
    if not values:
        return "–"
    if isinstance(values, Mapping):
        middle, low, high = values["median"], values["min"], values["max"]
    else:
        middle, low, high = median(values), min(values), max(values)
    text = format(middle, spec)
    return text if low == high else f"{text} [{low:{spec}}, {high:{spec}}]"


def percent_text(values: Mapping[str, float]) -> str:
    """Return a spread of relative differences in percent."""
    return f"{values['median']:+.1%} [{values['min']:+.1%}, {values['max']:+.1%}]"


def interval_text(values: Iterable[float], spec: str, half: str = "", factor: float = 1.0) -> str:
    """Return the mean with its 95 % confidence interval, which one value does not have.

    Args:
        values: At least one.
        spec: Format of the mean.
        half: Format of half the width; by default that of the mean without a sign.
        factor: Multiplies the values.
    """
    interval = mean_with_t_interval([factor * value for value in values])
    mean = format(interval.mean, spec)
    return mean if interval.half is None else f"{mean} ± {format(interval.half, half or spec.lstrip('+'))}"


def deviation_text(values: Iterable[float], spec: str) -> str:
    """Return the mean with the standard deviation, which one value does not have."""
    numbers = list(values)
    mean = format(fmean(numbers), spec)
    return mean if len(numbers) < 2 else f"{mean} ± {stdev(numbers):{spec}}"


def summary_text(mean: float, deviation: float | None, spec: str, factor: float = 1.0) -> str:
    """Return a saved mean with its saved deviation, which one seed does not have."""
    text = format(mean * factor, spec)
    return text if deviation is None else f"{text} ± {deviation * factor:{spec}}"


def prediction_text(values: Iterable[float], spec: str) -> str:
    """Return the 95 % prediction interval of one more value, for a normal distribution."""
    numbers = list(values)
    n = len(numbers)
    half = two_sided_t_quantile(CONFIDENCE_LEVEL, n - 1) * stdev(numbers) * (1 + 1 / n) ** 0.5
    return f"[{fmean(numbers) - half:{spec}}, {fmean(numbers) + half:{spec}}]"


def half_text(mean: float, half: float | None, spec: str) -> str:
    """Return a saved mean with half the width of its saved interval, which one network does not have."""
    text = format(mean, spec)
    return text if half is None else f"{text} ± {format(half, spec.lstrip('+'))}"


def range_text(values: Iterable[object]) -> str:
    """Return `first to last` of ordered texts; one text where both are equal."""
    texts = [str(value) for value in values]
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def origin_text(document: Mapping[str, Any]) -> str:
    """Return hardware, version of torch and day of a measurement."""
    origin = document.get("provenance") or document["written"]
    return f"{origin['hardware']}, torch {origin['versions']['torch']}, {origin['date'][:10]}"


def three_digits(values: Mapping[str, float]) -> str:
    """Return a spread with three digits at least; a single value alone."""
    numbers = [f"{value:.3g}" if value >= 100 else f"{value:.2f}" for value in values.values()]
    return numbers[0] if len(numbers) == 1 else f"{numbers[0]} [{', '.join(numbers[1:])}]"


def multiply_each(values: Iterable[float], factor: float) -> list[float]:
    """Return each value times a factor."""
    return [factor * value for value in values]


FILTERS = {
    "fmt": fmt,
    "difference": difference_text,
    "spread": spread_text,
    "percent": percent_text,
    "interval": interval_text,
    "deviation": deviation_text,
    "one_more": prediction_text,
    "span": range_text,
    "origin": origin_text,
    "three_digits": three_digits,
    "times": multiply_each,
    "mean": fmean,
    "stdev": stdev,
    "median": median,
}
"""Filters of the templates."""
