"""Loss, accuracy and metrics of a row: means over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bln_search.ranking.row_results import SeedResult
from bln_search.ranking.statistics.intervals import standard_deviation


class MeanStd(NamedTuple):
    """Mean and standard deviation over seeds (n − 1 in the denominator); the deviation is None for one seed.

    A named tuple, as a leaderboard has up to hundreds of thousands of them.
    """

    mean: float
    deviation: float | None

    @staticmethod
    def of_values(values: Sequence[float]) -> MeanStd:
        """Mean and standard deviation of one value or more."""
        if values.count(values[0]) == len(values):  # the rounded mean may differ from them
            return MeanStd(values[0], None if len(values) < 2 else 0.0)
        mean = math.fsum(values) / len(values)
        return MeanStd(mean, standard_deviation(values, mean))


NO_TASK_METRICS: Mapping[str, MeanStd] = {}


class SplitMetrics(NamedTuple):
    """Loss, accuracy (fraction) and metrics of the task on one split.

    Attributes:
        loss: Mean loss, in nats where it is cross-entropy.
        accuracy: None for a score without correctness, as that of a regression.
        task_metrics: Metrics of the task by name, those that have a value under every seed.
    """

    loss: MeanStd
    accuracy: MeanStd | None
    task_metrics: Mapping[str, MeanStd] = NO_TASK_METRICS

    @staticmethod
    def mean_over_seeds(results: Sequence[SeedResult]) -> SplitMetrics | None:
        """Means over the results, one for each seed; None unless every result is measured."""
        losses = [item.loss for item in results if item.loss is not None]
        accuracies = [item.accuracy for item in results if item.accuracy is not None]
        if not results or len(losses) < len(results):
            return None
        has_accuracy = len(accuracies) == len(results)
        return SplitMetrics(
            MeanStd.of_values(losses),
            MeanStd.of_values(accuracies) if has_accuracy else None,
            compute_task_metric_means_and_stds([item.metrics for item in results]),
        )


def compute_task_metric_means_and_stds(metrics: Sequence[Mapping[str, float]]) -> Mapping[str, MeanStd]:
    """Mean and deviation of the metrics that each of the mappings has, in the order of the first."""
    first, *others = metrics
    if not first:
        return NO_TASK_METRICS
    return {
        name: MeanStd.of_values([values[name] for values in metrics])
        for name in first
        if all(name in values for values in others)
    }
