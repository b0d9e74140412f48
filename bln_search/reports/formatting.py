"""Formatting of numbers, differences and groups in reports."""

from __future__ import annotations

import math

from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedPair, ComparedRow
from bln_search.ranking.metrics import MeanStd
from bln_search.ranking.statistics.intervals import ConfidenceInterval, t_interval_from_deviation

_MAX_DECIMALS = 8
_ROUNDING_ERROR = 0.5 * 10**-_MAX_DECIMALS
"""A smaller half-width is shown as 0."""


def format_interval(interval: ConfidenceInterval | None, factor: float = 1.0, digits: int = 4) -> str:
    """Mean and half-width of a confidence interval, rounded to two significant digits of the half-width.

    Args:
        interval: The interval; None for a missing value.
        factor: Factor by which both are multiplied: 100 for per cent.
        digits: Decimals of the mean if the half-width is unknown.
    """
    if interval is None:
        return "–"
    mean, half = interval.mean * factor, None if interval.half is None else interval.half * factor
    if half is None:
        return f"{mean:z.{digits}f}"
    if half < _ROUNDING_ERROR:
        return f"{mean:z.{digits}f} ± 0"
    decimals = min(_MAX_DECIMALS, max(0, 1 - math.floor(math.log10(half))))
    return f"{mean:z.{decimals}f} ± {half:.{decimals}f}"


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


def format_difference_and_p_value(pair: ComparedPair | None) -> tuple[str, str]:
    """Loss of the second row minus that of the first with its confidence interval, and p; dashes for no pair."""
    if pair is None:
        return "–", "–"
    loss = pair.loss
    interval = f"[{format_signed(-loss.high)}, {format_signed(-loss.low)}]"
    return f"{format_signed(-loss.mean)} {interval}", f"{loss.adjusted:.2g}"


def format_group_letters(row: ComparedRow) -> str:
    """Letters of the compact letter display; with too many groups for letters, `=` for rows of the top group."""
    return row.letters or ("=" if row.in_top_group else "")


def compared_rows_by_key(analysis: Analysis | None) -> dict[RowKey, ComparedRow]:
    """Compared rows by key; empty without a comparison."""
    if analysis is None or analysis.comparison is None:
        return {}
    return {row.key: row for row in analysis.comparison.rows}
