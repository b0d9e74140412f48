"""How much of the variation of the loss each parameter of a search explains by itself."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_BINS = 4


def importances(points: Sequence[Mapping[str, Any]], losses: Sequence[float]) -> dict[str, float]:
    """Share of the variance of the loss between groups of points, by parameter; numbers are cut into quarters.

    It is epsilon squared (Kelley 1935), the share that a one-way analysis of variance finds beyond chance, 0 where
    it finds none: between 0 and 1 each, and what parameters do together is in none of them. Empty for fewer than
    eight points.
    """
    if len(points) < 2 * _BINS:
        return {}
    names = sorted(set.intersection(*(set(point) for point in points)))
    found = {name: _explained([point[name] for point in points], losses) for name in names}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _explained(values: Sequence[Any], losses: Sequence[float]) -> float:
    groups: dict[object, list[float]] = {}
    for label, loss in zip(_grouped(values), losses, strict=True):
        groups.setdefault(label, []).append(loss)
    mean = statistics.fmean(losses)
    total = sum((loss - mean) ** 2 for loss in losses)
    within = sum((loss - statistics.fmean(group)) ** 2 for group in groups.values() for loss in group)
    left = len(losses) - len(groups)
    if total == 0 or left < 1 or len(groups) < 2:
        return 0.0
    return max(0.0, (total - within - (len(groups) - 1) * within / left) / total)


def _grouped(values: Sequence[Any]) -> list[object]:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not numbers or len(set(values)) <= _BINS:
        return [repr(value) for value in values]
    ordered = sorted(values)
    borders = [ordered[len(ordered) * part // _BINS] for part in range(1, _BINS)]
    return [sum(value >= border for border in borders) for value in values]
