"""Which conditions and points of a study are drawn, and what they are called."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping

from bln_search.core.records import RowKey
from bln_search.ranking.grouping import Condition, LossBySeed
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.configurations import ByConfiguration, rank_chart
from bln_search.reports.charts.search import PointResult, flat

_MOST_POINTS = 8


def best_points(conditions: Mapping[Condition, ByConfiguration]) -> dict[Condition, ByConfiguration]:
    """Where a study has a space: the conditions of its best points, best first; else all of them.

    Points are judged by rows that have as many seeds as any: what diverged under some is not best for the others.
    """
    if not any(one.point for one in conditions):
        return dict(conditions)
    best: dict[tuple[str, str], float] = {}
    seeds = max((len(values) for losses in conditions.values() for values in losses.values()), default=0)
    for one, losses in conditions.items():
        complete = {name: values for name, values in losses.items() if len(values) == seeds}
        if not complete:
            continue
        low = lowest(complete)
        best[one.arm, one.point] = min(low, best.get((one.arm, one.point), low))
    kept = {key: place for place, key in enumerate(sorted(best, key=best.__getitem__)[:_MOST_POINTS])}
    chosen = [one for one in conditions if (one.arm, one.point) in kept]
    return {one: conditions[one] for one in sorted(chosen, key=lambda one: kept[one.arm, one.point])}


def lowest(losses: ByConfiguration) -> float:
    """The lowest mean loss (nats) of a condition."""
    return min(statistics.fmean(values.values()) for values in losses.values())


def ranks_of_best(conditions: Mapping[Condition, ByConfiguration], most: int) -> Chart | None:
    """Ranks over estimates and batch sizes; of a search only at its best point, where points would be too many."""
    best = next(((one.arm, one.point) for one in conditions if one.point), None)
    of_best = [one for one in conditions if best in (None, (one.arm, one.point))][:most]
    return rank_chart({one: conditions[one] for one in of_best})


def point_results(losses: Mapping[RowKey, LossBySeed], seconds: Mapping[tuple[str, str], float]) -> list[PointResult]:
    """Every point with its best mean loss, of rows that have as many seeds as any.

    seconds: for a thousand examples by arm and point, where measured.
    """
    best: dict[tuple[str, str], float] = {}
    seeds = max((len(values) for values in losses.values()), default=0)
    for key, values in losses.items():
        if key.point and len(values) == seeds:
            mean = statistics.fmean(values.values())
            best[key.arm, key.point] = min(mean, best.get((key.arm, key.point), mean))
    return [
        PointResult(arm, flat(json.loads(point)), loss, seconds.get((arm, point)))
        for (arm, point), loss in best.items()
    ]
