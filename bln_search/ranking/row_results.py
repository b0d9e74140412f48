"""Results of the rows of a leaderboard, one for each seed, split and condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bln_search.core.enums import Split
from bln_search.core.metric_description import NO_METRICS
from bln_search.core.records import Evaluation, RowKey
from bln_search.core.states import EvaluationState


@dataclass(frozen=True)
class TrialEvaluation:
    """An evaluation of the network of one trial.

    Attributes:
        arm: Label of the arm.
        seed: Seed of the trial.
        evaluation: Its result.
        point: Point of the search space as JSON with sorted keys; empty without a space.
    """

    arm: str
    seed: int
    evaluation: Evaluation
    point: str = ""


class SeedResult(NamedTuple):
    """The result of a row under one seed, on one split and under one condition.

    A named tuple because a leaderboard is computed from up to hundreds of thousands of them.

    Attributes:
        seed: Seed of the trial.
        split: Split of the data.
        condition: Name of the study's condition; empty for clean images.
        state: Whether it was measured.
        loss: Mean loss (nats); None unless measured.
        accuracy: Accuracy (fraction); None unless measured.
        reason: Why it is undefined or diverged.
        metrics: Metrics of the task by name.
    """

    seed: int
    split: Split
    condition: str
    state: EvaluationState
    loss: float | None
    accuracy: float | None
    reason: str | None
    metrics: Mapping[str, float] = NO_METRICS


RowResults = Mapping[RowKey, list[SeedResult]]
"""Results of every row."""


def group_evaluations_by_row(evaluations: Iterable[TrialEvaluation]) -> dict[RowKey, list[SeedResult]]:
    """The results of every row, in the order of the evaluations."""
    by_row: dict[RowKey, list[SeedResult]] = {}
    for item in evaluations:
        evaluation, key = item.evaluation, item.evaluation.key
        result = SeedResult(
            item.seed,
            key.split,
            key.condition,
            evaluation.state,
            evaluation.loss,
            evaluation.accuracy,
            evaluation.reason,
            evaluation.metrics,
        )
        by_row.setdefault(RowKey.of_evaluation(item.arm, item.point, key), []).append(result)
    return by_row
