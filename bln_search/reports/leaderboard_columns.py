"""Columns that all forms of the leaderboard share: terminal, page, LaTeX, Markdown, CSV."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.metrics import MeanStd

SPLITS = (Split.VALIDATION, Split.TEST)
METRICS = ("loss", "accuracy")
SPLIT_METRICS = tuple((split, metric) for split in SPLITS for metric in METRICS)
"""The metric columns in their order."""


def identity_columns(rows: Sequence[LeaderboardRow]) -> list[tuple[str, str]]:
    """Heading and attribute of the columns that only some leaderboards need: several arms, a search space."""
    columns = [("Arm", "arm")] if len({row.arm for row in rows}) > 1 else []
    return columns + ([("Parameters", "parameters")] if any(row.point for row in rows) else [])


def metric_of(row: LeaderboardRow, split: Split, metric: str) -> MeanStd | None:
    """Value of a metric column; None where the row was not measured on that split."""
    metrics = row.metrics.get(split)
    if metrics is None:
        return None
    return metrics.accuracy if metric == "accuracy" else metrics.loss


def scale_of(metric: str) -> tuple[float, int]:
    """Factor and number of decimals with which a metric is written: accuracies in per cent."""
    return (100, 2) if metric == "accuracy" else (1, 4)


def mean_and_deviation(value: MeanStd, metric: str, plus_minus: str = " ± ") -> str:
    """Mean and standard deviation over seeds; the mean alone for one seed."""
    factor, digits = scale_of(metric)
    mean = mean_only(value, metric)
    return mean if value.deviation is None else f"{mean}{plus_minus}{value.deviation * factor:.{digits}f}"


def mean_only(value: MeanStd, metric: str) -> str:
    """Mean over seeds."""
    factor, digits = scale_of(metric)
    return f"{value.mean * factor:.{digits}f}"
