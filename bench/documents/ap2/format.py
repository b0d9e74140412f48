"""Tables in Markdown, and cells with a mean and its confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.documents.papers.marks import interval_text

NOT_RUN = "not run"


def table(columns: Sequence[str], lines: Iterable[str]) -> list[str]:
    """Return a table with a head; `lines` are its rows."""
    return [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", *lines]


def interval(values: Iterable[float] | None, digits: int, factor: float = 1.0) -> str:
    """Return the mean of values times `factor` with its 95 % confidence interval; `not run` without values."""
    numbers = [factor * value for value in values or ()]
    return interval_text(numbers, digits) if numbers else NOT_RUN
