"""What switches, population estimate, batch size and seed do to every metric of a study."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.ranking.grouping import losses_by_condition
from bln_search.ranking.leaderboard import Candidate, Scored
from bln_search.ranking.statistics.eta_squared import Cell, shares
from bln_search.ranking.statistics.factorial_effects import effects
from bln_search.ranking.stored_model import Kept

METRICS = ("loss", "accuracy")
_SWITCHES = 4


class ConditionEffect(Kept):
    """The metric with the switches at T less that at F (see `effects`), with its 95 % interval over seeds."""

    switches: str
    mean: float
    low: float | None
    high: float | None


class ConditionEffects(Kept):
    """Main effects and interactions of the switches of an arm under one condition, on one metric of one split."""

    arm: str
    point: str
    estimate: PopulationEstimate | None
    batch_size: int
    split: Split
    metric: str
    effects: tuple[ConditionEffect, ...]


class VarianceShares(Kept):
    """Shares of the variance of a metric of an arm by factor, largest first, interactions and the rest last."""

    arm: str
    point: str
    split: Split
    metric: str
    shares: tuple[tuple[str, float], ...]


Figures = Mapping[Candidate, dict[int, float]]


def figures_by_row(scored: Iterable[Scored], rows: Collection[tuple[str, str]]) -> dict[tuple[Split, str], Figures]:
    """Loss and accuracy of every row of these arms and points, by split and metric; rows without a value left out."""
    found: dict[tuple[Split, str], dict[Candidate, dict[int, float]]] = {}
    for one in scored:
        key = one.evaluation.key
        if (one.arm, one.point) not in rows or one.evaluation.loss is None or one.evaluation.accuracy is None:
            continue
        candidate = (one.arm, one.point, key.configuration, key.estimate, key.batch_size)
        for metric, value in zip(METRICS, (one.evaluation.loss, one.evaluation.accuracy), strict=True):
            found.setdefault((key.split, metric), {}).setdefault(candidate, {})[one.seed] = value
    return dict(sorted(found.items()))


def condition_effects(figures: Mapping[tuple[Split, str], Figures]) -> tuple[ConditionEffects, ...]:
    """Of every condition, split and metric under which every configuration of the method has a value."""
    found = []
    for (split, metric), by_row in figures.items():
        for condition, values in losses_by_condition(dict(by_row)).items():
            every = effects(values, order=_SWITCHES)
            if every is not None:
                sizes = tuple(
                    ConditionEffect(switches=one.name, mean=one.size.mean, low=one.size.low, high=one.size.high)
                    for one in every
                )
                about = {name: getattr(condition, name) for name in ("arm", "point", "estimate", "batch_size")}
                found.append(ConditionEffects(**about, split=split, metric=metric, effects=sizes))
    return tuple(found)


def variance_shares(figures: Mapping[tuple[Split, str], Figures]) -> tuple[VarianceShares, ...]:
    """Of every arm and point whose design is balanced."""
    found = []
    for (split, metric), by_row in figures.items():
        for arm, point in dict.fromkeys((row[0], row[1]) for row in by_row):
            cells: dict[Cell, float] = {
                (configuration, estimate, batch_size, seed): value
                for (label, at, configuration, estimate, batch_size), values in by_row.items()
                if (label, at) == (arm, point) and _switched(configuration)
                for seed, value in values.items()
            }
            parts = shares(cells)
            if parts is not None:
                named = tuple((one.name, one.share) for one in parts)
                found.append(VarianceShares(arm=arm, point=point, split=split, metric=metric, shares=named))
    return tuple(found)


def _switched(configuration: InferenceConfiguration) -> bool:
    """The memory is no switch between population and mini-batch."""
    return not configuration.uses_memory
