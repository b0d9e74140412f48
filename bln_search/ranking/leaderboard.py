"""The leaderboard: one row for each arm, point, configuration, population estimate and inference batch size."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.condition_metrics import ConditionMetrics, compute_condition_metrics_of_row
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.ranking.row_results import RowResults, SeedResult, TrialEvaluation, group_evaluations_by_row
from bln_search.specs.sections.point_labels import find_distinct_point_digits
from bln_search.specs.sections.space import DIGITS, format_encoded_point

RankedSeeds = int | tuple[int, ...] | None
"""Number of seeds that a ranked row must have, see `build_leaderboard_from_evaluations`."""


@dataclass(frozen=True)
class SeedShortfall:
    """A row has evaluations on `split` under `evaluated` seeds, fewer than the `required` number."""

    split: Split
    evaluated: int
    required: int


@dataclass(frozen=True)
class LeaderboardRow:
    """A row of the leaderboard.

    Attributes:
        rank: None for a row that is not measured under every seed.
        arm: Label of the arm.
        configuration: Inference configuration.
        estimate: Population estimate; None where the configuration reads no population value.
        batch_size: Inference mini-batch size.
        state: The worst state of its evaluations on the split that decides the ranking.
        seeds: Number of seeds with evaluations.
        metrics: Loss, accuracy and metrics of the task by split, on clean images where the study has conditions.
        gaps: Generalization gap by split: its loss minus the loss on the training split, where that was evaluated.
        point_digits: Significant digits of the point as people read it, which distinguish the points of a leaderboard.
        reason: Why it is undefined or diverged, or why its evaluation ended early, as its evaluation says.
        point: Point of the search space as JSON; empty without a space.
        missing_seeds: None where no seed is missing.
        conditions: Metrics under the conditions of the study; None where there are none.
    """

    rank: int | None
    arm: str
    configuration: InferenceConfiguration
    estimate: str | None
    batch_size: int
    state: EvaluationState
    seeds: int
    metrics: dict[Split, SplitMetrics]
    reason: str | None
    point: str = ""
    missing_seeds: SeedShortfall | None = None
    conditions: ConditionMetrics | None = None
    gaps: Mapping[Split, MeanStd] = field(default_factory=dict)
    point_digits: int = field(default=DIGITS, compare=False)

    @property
    def key(self) -> RowKey:
        """Identity of the row."""
        return RowKey(self.arm, self.point, self.configuration, self.estimate, self.batch_size)

    @property
    def parameters(self) -> str:
        """The point as people read it."""
        return format_encoded_point(self.point, self.point_digits)


@dataclass(frozen=True)
class Leaderboard:
    """Ranked rows, then rows without a rank. `ranked_on` is the split that decides the order."""

    ranked_on: Split
    rows: tuple[LeaderboardRow, ...]

    def __post_init__(self) -> None:
        digits = find_distinct_point_digits(row.point for row in self.rows)
        for row in self.rows:
            if row.point_digits < digits:
                object.__setattr__(row, "point_digits", digits)  # a part of a leaderboard keeps the labels of its rows

    @property
    def best_row(self) -> LeaderboardRow | None:
        """The first row; None where no row is ranked."""
        return self.rows[0] if self.rows and self.rows[0].rank else None

    @cached_property
    def has_accuracy(self) -> bool:
        """Whether rows have an accuracy: not with a score without correctness."""
        return all(metrics.accuracy is not None for row in self.rows for metrics in row.metrics.values())

    @cached_property
    def task_metric_names(self) -> tuple[str, ...]:
        """The metrics of the task that rows have; they do not influence the order."""
        values = (metrics.task_metrics for row in self.rows for metrics in row.metrics.values())
        return tuple(dict.fromkeys(name for names in values for name in names))

    @cached_property
    def has_train_metrics(self) -> bool:
        """Whether rows were evaluated on the training split."""
        return any(Split.TRAIN in row.metrics for row in self.rows)

    @cached_property
    def condition_names(self) -> tuple[str, ...]:
        """The conditions under which rows were evaluated, in the order of the study."""
        metrics = (row.conditions for row in self.rows)
        return tuple(dict.fromkeys(name for item in metrics if item is not None for name in item.by_condition))

    def restrict_to_batch_size(self, batch_size: int) -> Leaderboard:
        """The rows of one inference mini-batch size, ranked among themselves."""
        return self.restrict_to_rows([row for row in self.rows if row.batch_size == batch_size])

    def restrict_to_rows(self, rows: Iterable[LeaderboardRow]) -> Leaderboard:
        """Some rows of this leaderboard, in its order, ranked among themselves."""
        chosen = list(rows)
        ranks = _iter_ranks(chosen, self.ranked_on)
        return Leaderboard(
            self.ranked_on, tuple(replace(row, rank=rank) for row, rank in zip(chosen, ranks, strict=True))
        )

    @property
    def is_ranked_on_test(self) -> bool:
        """Whether the test split decides the order, so that test figures of the first row are optimistic."""
        return self.ranked_on is Split.TEST


_STATE_ORDER = {EvaluationState.MEASURED: 0, EvaluationState.DIVERGED: 1, EvaluationState.UNDEFINED: 2}


def build_leaderboard_from_evaluations(
    evaluations: Iterable[TrialEvaluation], ranked_on: Split = Split.VALIDATION, seeds: RankedSeeds = None
) -> Leaderboard:
    """Order rows by mean loss on `ranked_on`, then by higher mean accuracy; equal rows share a rank.

    A row that is undefined or diverged under any seed on `ranked_on`, or lacks seeds, is not ranked and follows the
    ranked ones with its reason. Evaluations on other splits and under conditions have no influence on the order.

    Args:
        evaluations: Evaluations of all rows.
        ranked_on: Split that decides the order.
        seeds: Number of seeds a ranked row must have; by default the largest number any row has. Of several numbers the
            largest one that a row has.

    Raises:
        ValueError: A row has two evaluations under the same seed and condition on the same split.
    """
    return build_leaderboard_from_results(group_evaluations_by_row(evaluations), ranked_on, seeds)


def build_leaderboard_from_results(
    results: RowResults, ranked_on: Split = Split.VALIDATION, seeds: RankedSeeds = None
) -> Leaderboard:
    """`build_leaderboard_from_evaluations` of results that are grouped by row."""
    required = seeds if isinstance(seeds, int) else _find_required_seeds(results, seeds or ())
    rows = [_make_leaderboard_row(key, of_row, ranked_on, required) for key, of_row in results.items()]
    rows.sort(key=lambda row: _row_sort_key(row, ranked_on))
    for row, rank in zip(rows, _iter_ranks(rows, ranked_on), strict=True):
        object.__setattr__(row, "rank", rank)  # nobody else has the new rows; copies take a tenth of the time
    return Leaderboard(ranked_on, tuple(rows))


def make_updated_leaderboard(
    board: Leaderboard, points: Collection[tuple[str, str]], results: RowResults, seeds: int
) -> Leaderboard:
    """The leaderboard of all results, from one of earlier ones; equals `build_leaderboard_from_results` of all of them.

    Args:
        board: Leaderboard of the earlier results, which is not changed.
        points: Arms and points whose results have changed.
        results: All results of these, by row.
        seeds: Number of seeds a ranked row must have.
    """
    split = board.ranked_on
    rows = [row for row in board.rows if (row.arm, row.point) not in points]
    for key, of_row in results.items():
        row = _make_leaderboard_row(key, of_row, split, seeds)
        insort(rows, row, key=lambda other: _row_sort_key(other, split))
    for position, (row, rank) in enumerate(zip(rows, _iter_ranks(rows, split), strict=True)):
        if row.rank != rank:
            rows[position] = _copy_with_rank(row, rank)
    return Leaderboard(split, tuple(rows))


def _copy_with_rank(row: LeaderboardRow, rank: int | None) -> LeaderboardRow:
    """`dataclasses.replace`, which takes six times as long: most rows of a leaderboard may get another rank."""
    copied = object.__new__(LeaderboardRow)
    copied.__dict__.update(row.__dict__, rank=rank)
    return copied


def _find_required_seeds(results: RowResults, looks: tuple[int, ...]) -> int:
    """The largest number of seeds any row has, or the largest one of `looks` up to it; the first look before that."""
    most = max((len({result.seed for result in of_row}) for of_row in results.values()), default=0)
    return max((look for look in looks if look <= most), default=looks[0]) if looks else most


def _make_leaderboard_row(key: RowKey, results: list[SeedResult], ranked_on: Split, required: int) -> LeaderboardRow:
    """A row without a rank from all its results. required: the number of seeds a ranked row must have."""
    _check_unique_seeds(key, results)
    clean = [result for result in results if not result.condition]
    by_split: dict[Split, list[SeedResult]] = {}
    for result in clean:
        by_split.setdefault(result.split, []).append(result)
    worst = max(by_split.get(ranked_on) or clean, key=lambda result: _STATE_ORDER[result.state])
    is_measured = worst.state is EvaluationState.MEASURED
    evaluated = len(by_split.get(ranked_on, ()))  # seeds, each with one result
    metrics: dict[Split, SplitMetrics] = {}
    if is_measured:
        for split in (Split.VALIDATION, Split.TEST, Split.TRAIN):
            split_metrics = SplitMetrics.mean_over_seeds(by_split.get(split, []))
            if split_metrics is not None:
                metrics[split] = split_metrics
    return LeaderboardRow(
        rank=None,
        arm=key.arm,
        configuration=key.configuration,
        estimate=key.estimate,
        batch_size=key.batch_size,
        state=worst.state,
        seeds=len({result.seed for result in clean}),
        metrics=metrics,
        reason=worst.reason,
        point=key.point,
        missing_seeds=SeedShortfall(ranked_on, evaluated, required) if is_measured and evaluated < required else None,
        conditions=compute_condition_metrics_of_row(results) if is_measured and len(clean) < len(results) else None,
        gaps=_generalization_gaps_by_split(by_split, metrics) if Split.TRAIN in metrics else {},
    )


def _generalization_gaps_by_split(
    by_split: Mapping[Split, list[SeedResult]], metrics: Mapping[Split, SplitMetrics]
) -> dict[Split, MeanStd]:
    """The loss of each measured split minus that of the training split, seed by seed, for the seeds that have both."""
    losses = {split: {result.seed: result.loss or 0.0 for result in by_split[split]} for split in metrics}
    training = losses.pop(Split.TRAIN)
    gaps = {
        split: [loss - training[seed] for seed, loss in by_seed.items() if seed in training]
        for split, by_seed in losses.items()
    }
    return {split: MeanStd.of_values(values) for split, values in gaps.items() if values}


def _check_unique_seeds(key: RowKey, results: list[SeedResult]) -> None:
    """Raise ValueError for two results under one seed, which mean and deviation would count as two seeds."""
    places = [result[:3] for result in results]  # seed, split, condition
    if len(set(places)) == len(places):
        return
    (seed, split, _), count = Counter(places).most_common(1)[0]
    raise ValueError(
        f"{key.arm} {key.configuration} at mini-batches of {key.batch_size} has {count} evaluations under "
        f"seed {seed} on {split}: give each seed once"
    )


def _can_be_ranked(row: LeaderboardRow, split: Split) -> bool:
    return row.reason is None and row.missing_seeds is None and split in row.metrics


def _row_sort_key(row: LeaderboardRow, split: Split) -> tuple[int, bool, float, float, str, str, str, str, int]:
    """What orders the rows of a leaderboard; different for any two of them."""
    metrics = row.metrics.get(split)
    loss, error = _mean_loss_and_negative_accuracy(metrics) if metrics else (0.0, 0.0)
    position = _STATE_ORDER[row.state], not _can_be_ranked(row, split), loss, error
    return *position, row.arm, row.point, str(row.configuration), row.estimate or "", row.batch_size


def _mean_loss_and_negative_accuracy(metrics: SplitMetrics) -> tuple[float, float]:
    """What orders rows: the mean loss, then the negative mean accuracy, which is 0 for a score without correctness."""
    return metrics.loss.mean, 0.0 if metrics.accuracy is None else -metrics.accuracy.mean


def _iter_ranks(rows: Iterable[LeaderboardRow], split: Split) -> Iterable[int | None]:
    """The rank of each of the ordered rows; None for a row without one."""
    current_rank, previous = 0, None
    for position, row in enumerate(rows, start=1):
        metrics = row.metrics.get(split)
        if row.state is not EvaluationState.MEASURED or not _can_be_ranked(row, split) or metrics is None:
            yield None
            continue
        means = _mean_loss_and_negative_accuracy(metrics)
        if means != previous:
            current_rank, previous = position, means
        yield current_rank
