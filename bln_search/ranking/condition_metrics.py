"""Metrics of a row under the conditions of a study, and their mean and worst value."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bln_search.core.enums import Split
from bln_search.ranking.metrics import MeanStd, SplitMetrics, compute_task_metric_means_and_stds
from bln_search.ranking.row_results import SeedResult

MEAN, WORST = "mean", "worst"
SUMMARIES = (MEAN, WORST)
"""Names of the summaries over conditions; no condition has such a name."""

MetricsBySplit = Mapping[Split, SplitMetrics]
_BySeed = dict[int, SeedResult]


@dataclass(frozen=True)
class ConditionMetrics:
    """Loss and accuracy of a row under every condition of a study.

    Attributes:
        by_condition: Metrics by condition and split; a split is missing where an evaluation has no value.
        mean: Metrics by split of the mean over conditions, which is computed for each seed.
        worst: By split the loss of the condition with the highest mean loss, and the accuracy of the condition with
            the lowest mean accuracy; metrics of the task have no worst value.
    """

    by_condition: Mapping[str, MetricsBySplit]
    mean: MetricsBySplit
    worst: MetricsBySplit

    @property
    def metrics_by_condition_or_summary(self) -> dict[str, MetricsBySplit]:
        """Metrics by the name of the condition or summary."""
        return {**self.by_condition, MEAN: self.mean, WORST: self.worst}


def compute_condition_metrics_of_row(results: Iterable[SeedResult]) -> ConditionMetrics | None:
    """The metrics of a row from its results under conditions; None without any.

    Summaries are over all conditions: they are missing on a split where a condition has no value under a seed.
    """
    grouped: dict[str, dict[Split, _BySeed]] = {}
    for result in results:
        if result.condition:
            grouped.setdefault(result.condition, {}).setdefault(result.split, {})[result.seed] = result
    if not grouped:
        return None
    by_condition: dict[str, dict[Split, SplitMetrics]] = {}
    for condition, by_split in grouped.items():
        values = {split: SplitMetrics.mean_over_seeds(list(by_seed.values())) for split, by_seed in by_split.items()}
        by_condition[condition] = {split: metrics for split, metrics in values.items() if metrics is not None}
    mean, worst = {}, {}
    for split in (Split.VALIDATION, Split.TEST):
        metrics_of_all = [metrics[split] for metrics in by_condition.values() if split in metrics]
        if len(metrics_of_all) == len(by_condition):
            worst[split] = _worst_over_conditions(metrics_of_all)
            mean[split] = _mean_over_conditions([by_split[split] for by_split in grouped.values()])
    return ConditionMetrics(by_condition, mean, worst)


def _worst_over_conditions(metrics: list[SplitMetrics]) -> SplitMetrics:
    accuracies = [value.accuracy for value in metrics if value.accuracy is not None]
    return SplitMetrics(
        max((value.loss for value in metrics), key=lambda loss: loss.mean),
        min(accuracies, key=lambda accuracy: accuracy.mean) if len(accuracies) == len(metrics) else None,
    )


def _mean_over_conditions(conditions: list[_BySeed]) -> SplitMetrics:
    """Mean over conditions of each seed, then mean and deviation over seeds; every result is measured."""
    seeds = sorted({seed for by_seed in conditions for seed in by_seed})
    by_seed = [[results[seed] for results in conditions if seed in results] for seed in seeds]
    accuracies = [[item.accuracy for item in items if item.accuracy is not None] for items in by_seed]
    metrics = [
        {
            name: value.mean
            for name, value in compute_task_metric_means_and_stds([item.metrics for item in items]).items()
        }
        for items in by_seed
    ]
    return SplitMetrics(
        MeanStd.of_values(
            [statistics.fmean(item.loss for item in items if item.loss is not None) for items in by_seed]
        ),
        MeanStd.of_values(list(map(statistics.fmean, accuracies))) if all(accuracies) else None,
        compute_task_metric_means_and_stds(metrics),
    )
