"""Factorial effects and variance shares of a study, for every metric and split."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.effect_records import SwitchEffectOrInteraction, SwitchEffectsOfSetting, VarianceShares
from bln_search.ranking.grouping import group_losses_by_setting_and_configuration
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.statistics.eta_squared import Cell, variance_shares_of_factors
from bln_search.ranking.statistics.factorial_effects import compute_factorial_effects

METRICS = ("loss", "accuracy")
_MAX_INTERACTION_ORDER = 4

ValuesByRow = Mapping[RowKey, dict[int, float]]
"""Values of one metric on one split, by row and seed."""


def group_values_by_split_and_metric(
    evaluations: Iterable[TrialEvaluation], arms_and_points: Collection[tuple[str, str]]
) -> dict[tuple[Split, str], ValuesByRow]:
    """Loss and accuracy on clean images of the rows of these arms and points, by split and metric.

    The training split is left out: it takes part in no comparison. Rows without a value are omitted.
    """
    values: dict[tuple[Split, str], dict[RowKey, dict[int, float]]] = {}
    for item in evaluations:
        evaluation = item.evaluation
        if not evaluation.key.has_no_condition or evaluation.key.split is Split.TRAIN:
            continue
        if (item.arm, item.point) not in arms_and_points or evaluation.loss is None:
            continue
        row = RowKey.of_evaluation(item.arm, item.point, evaluation.key)
        for metric, value in zip(METRICS, (evaluation.loss, evaluation.accuracy), strict=True):
            if value is None:  # a score without correctness
                continue
            values.setdefault((evaluation.key.split, metric), {}).setdefault(row, {})[item.seed] = value
    return dict(sorted(values.items()))


def compute_effects_of_each_setting(
    values: Mapping[tuple[Split, str], ValuesByRow],
) -> tuple[SwitchEffectsOfSetting, ...]:
    """Effects for each evaluation setting, split and metric in which all configurations of the method have a value."""
    results = []
    for (split, metric), by_row in values.items():
        for setting, by_configuration in group_losses_by_setting_and_configuration(dict(by_row)).items():
            effects = compute_factorial_effects(by_configuration, order=_MAX_INTERACTION_ORDER)
            if effects is None:
                continue
            stored = tuple(
                SwitchEffectOrInteraction(
                    switches=effect.name, mean=effect.size.mean, low=effect.size.low, high=effect.size.high
                )
                for effect in effects
            )
            results.append(SwitchEffectsOfSetting(**asdict(setting), split=split, metric=metric, effects=stored))
    return tuple(results)


def compute_variance_shares(values: Mapping[tuple[Split, str], ValuesByRow]) -> tuple[VarianceShares, ...]:
    """Shares for every arm and point whose design is balanced."""
    results = []
    for (split, metric), by_row in values.items():
        for arm, point in dict.fromkeys((row.arm, row.point) for row in by_row):
            cells: dict[Cell, float] = {
                (row.configuration, row.estimate, row.batch_size, seed): value
                for row, by_seed in by_row.items()
                if (row.arm, row.point) == (arm, point) and row.configuration.uses_only_population_and_mini_batch
                for seed, value in by_seed.items()
            }
            shares = variance_shares_of_factors(cells)
            if shares is not None:
                results.append(VarianceShares(arm=arm, point=point, split=split, metric=metric, shares=tuple(shares)))
    return tuple(results)
