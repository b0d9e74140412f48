"""Formatting of numbers, differences and groups in reports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedRow, RowVerdict
from bln_search.ranking.metrics import MeanStd
from bln_search.ranking.statistics.intervals import ALPHA, ConfidenceInterval, t_interval_from_deviation

_MAX_DECIMALS = 8
_ROUNDING_ERROR = 0.5 * 10**-_MAX_DECIMALS
"""A smaller half-width is shown as 0."""

_EXTRA_DECIMALS = 2
"""Decimals of a column differ at most by this number from those of values without an interval."""


def display_factor_and_decimals(metric: str) -> tuple[float, int]:
    """Factor and number of decimals with which a metric is written: accuracies in per cent."""
    return (100, 2) if metric == "accuracy" else (1, 4)


def format_loss(loss: float) -> str:
    """A loss with four decimals; a large one, as of a diverged row, without decimals."""
    if abs(loss) < 1_000:
        return f"{loss:.4f}"
    return f"{loss:,.0f}" if abs(loss) < 1e7 else f"{loss:.2g}"


def format_mean_and_deviation(value: MeanStd, metric: str) -> str:
    """Mean and standard deviation over seeds; the mean alone for one seed."""
    factor, digits = display_factor_and_decimals(metric)
    mean = format_mean(value, metric)
    return mean if value.deviation is None else f"{mean} ± {value.deviation * factor:.{digits}f}"


def format_mean(value: MeanStd, metric: str) -> str:
    """Mean over seeds."""
    factor, digits = display_factor_and_decimals(metric)
    return f"{value.mean * factor:.{digits}f}"


def format_interval(
    interval: ConfidenceInterval | None,
    factor: float = 1.0,
    digits: int = 4,
    *,
    decimals: int | None = None,
    largest: float | None = None,
) -> str:
    """Mean and half-width of a confidence interval with the same number of decimals.

    By default the half-width has two significant digits, the usual rule for a value by itself (Particle Data Group,
    Review of Particle Physics, section 5.3). Values of one column have the same decimals instead: `common_decimals`.

    Args:
        interval: The interval; None for a missing value.
        factor: Factor by which both are multiplied: 100 for per cent.
        digits: Decimals of the mean if the half-width is unknown.
        decimals: Decimals of both.
        largest: Range of the values of the quantity. A half-width above it is shown as `> 100`: it excludes no value.
    """
    if interval is None:
        return "–"
    mean, half = interval.mean * factor, None if interval.half is None else interval.half * factor
    if half is None:
        return f"{mean:z.{digits if decimals is None else decimals}f}"
    if half < _ROUNDING_ERROR:
        return f"{mean:z.{digits if decimals is None else decimals}f} ± 0"
    if decimals is None:
        decimals = min(_MAX_DECIMALS, max(0, _decimals_for_significant_digits(half, 2)))
    if largest is not None and half > largest:
        return f"{mean:z.{decimals}f} ± > {largest:g}"
    rounded = f"{half:.{decimals}f}"
    return f"{mean:z.{decimals}f} ± {rounded if float(rounded) else f'< {10**-decimals:.{decimals}f}'}"


def format_metric_interval(interval: ConfidenceInterval | None, metric: str, decimals: int | None = None) -> str:
    """The interval of a metric: accuracies in per cent, of which none is above 100.

    Args:
        interval: The interval; None for a missing value.
        metric: `accuracy`, or a loss or gap.
        decimals: Decimals of mean and half-width; None for those of the half-width.
    """
    factor, digits = display_factor_and_decimals(metric)
    largest = 100.0 if metric == "accuracy" else None
    return format_interval(interval, factor, digits, decimals=decimals, largest=largest)


def common_decimals(intervals: Iterable[ConfidenceInterval | None], metric: str) -> int:
    """Decimals of all values of a column, so that rounding never reverses their order.

    The median half-width has two significant digits and the smallest at least one, within two decimals of those of
    values without an interval: 2 to 6 decimals of a loss, 0 to 4 of an accuracy in per cent.

    Args:
        intervals: The values of the column; None for a missing one.
        metric: `accuracy`, or a loss or gap.
    """
    factor, digits = display_factor_and_decimals(metric)
    halves = [factor * interval.half for interval in intervals if interval is not None and interval.half is not None]
    halves = [half for half in halves if half >= _ROUNDING_ERROR]
    if not halves:
        return digits
    needed = max(
        _decimals_for_significant_digits(statistics.median(halves), 2), _decimals_for_significant_digits(min(halves), 1)
    )
    return min(digits + _EXTRA_DECIMALS, max(digits - _EXTRA_DECIMALS, needed))


def _decimals_for_significant_digits(value: float, digits: int) -> int:
    """Decimals with which a positive value has so many significant digits."""
    return digits - 1 - math.floor(math.log10(value))


def format_signed_interval(interval: ConfidenceInterval | None) -> str:
    """A difference with its sign; no sign if its mean is rounded to zero."""
    text = format_interval(interval)
    return f"+{text}" if text[0].isdigit() and float(text.partition(" ")[0]) else text


def format_signed(value: float, digits: int = 4) -> str:
    """A difference with its sign; no sign if it is rounded to zero."""
    text = f"{value:+z.{digits}f}"
    return text if float(text) else text.removeprefix("+")


def confidence_interval_over_seeds(value: MeanStd | None, seeds: int) -> ConfidenceInterval | None:
    """Confidence interval of a mean over seeds; None for a missing value."""
    return None if value is None else t_interval_from_deviation(value.mean, value.deviation, seeds)


def format_difference_and_p_value(row: ComparedRow) -> tuple[str, str]:
    """Loss of a row minus that of the best one with its confidence interval, and p; dashes for the best row."""
    if row.verdict is RowVerdict.BEST:
        return "–", "–"
    above = row.above_best
    interval = f"[{format_signed(above.low)}, {format_signed(above.high)}]"
    return f"{format_signed(above.mean)} {interval}", f"{above.adjusted:.2g}"


def verdict_confidence_text(level: float = ALPHA) -> str:
    """With which confidence verdicts hold over all looks, and the part of the error rate that a later look spends."""
    if level > ALPHA / 2:  # the first look of a study, planned or not
        return "95 %, corrected for all rows"
    return f"95 % over all looks, {100 * level:.2g} % error rate in this one, corrected for all rows"


def level_of_comparison(analysis: Analysis | None) -> float:
    """Significance level of the comparison of an analysis; 5 % without one."""
    return ALPHA if analysis is None or analysis.comparison is None else analysis.comparison.level


def compared_rows_by_key(analysis: Analysis | None) -> dict[RowKey, ComparedRow]:
    """Compared rows by key; empty without a comparison."""
    if analysis is None or analysis.comparison is None:
        return {}
    return {row.key: row for row in analysis.comparison.rows}


def recommended_row_key(analysis: Analysis | None) -> RowKey | None:
    """The recommended row; None without a recommendation."""
    recommendation = None if analysis is None else analysis.recommendation
    return None if recommendation is None else recommendation.key
