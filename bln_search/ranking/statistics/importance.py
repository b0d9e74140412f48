"""Importance of the parameters of a search: share of the variance of the loss that each explains by itself."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_QUANTILE_GROUPS = 4


def importance_by_parameter(points: Sequence[Mapping[str, Any]], losses: Sequence[float]) -> dict[str, float]:
    """Epsilon squared (Kelley 1935) of each parameter, in decreasing order; empty for fewer than eight points.

    Epsilon squared is the share of variance between groups in a one-way analysis of variance, corrected for chance and
    at least 0. Each value lies between 0 and 1; interactions of parameters are part of none. Numeric parameters are
    grouped by quartiles.

    Args:
        points: Parameters of each point.
        losses: Loss of each point.
    """
    if len(points) < 2 * _QUANTILE_GROUPS:
        return {}
    names = sorted(set.intersection(*(set(point) for point in points)))
    importance = {name: _epsilon_squared_of_one_parameter([point[name] for point in points], losses) for name in names}
    return dict(sorted(importance.items(), key=lambda item: -item[1]))


def _epsilon_squared_of_one_parameter(values: Sequence[Any], losses: Sequence[float]) -> float:
    groups: dict[object, list[float]] = {}
    for label, loss in zip(_quartile_or_value_labels(values), losses, strict=True):
        groups.setdefault(label, []).append(loss)
    mean = statistics.fmean(losses)
    total = sum((loss - mean) ** 2 for loss in losses)
    within = sum((loss - statistics.fmean(group)) ** 2 for group in groups.values() for loss in group)
    residual_degrees = len(losses) - len(groups)
    if total == 0 or residual_degrees < 1 or len(groups) < 2:
        return 0.0
    return max(0.0, (total - within - (len(groups) - 1) * within / residual_degrees) / total)


def _quartile_or_value_labels(values: Sequence[Any]) -> list[object]:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not numbers or len(set(values)) <= _QUANTILE_GROUPS:
        return [repr(value) for value in values]
    ordered = sorted(values)
    borders = [ordered[len(ordered) * part // _QUANTILE_GROUPS] for part in range(1, _QUANTILE_GROUPS)]
    return [sum(value >= border for border in borders) for value in values]
