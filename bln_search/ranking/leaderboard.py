"""The ranked table: one row for each arm, point, configuration, population estimate and inference batch size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation
from bln_search.core.states import EvaluationState
from bln_search.specs.space import written_label


@dataclass(frozen=True)
class Scored:
    """An evaluation of one seed of one arm; point: of the study's space as JSON with sorted keys, empty without one."""

    arm: str
    seed: int
    evaluation: Evaluation
    point: str = ""


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over seeds; the deviation (n - 1 in the denominator) is None for one seed."""

    mean: float
    deviation: float | None

    @staticmethod
    def of(values: list[float]) -> Summary:
        """Of at least one value."""
        if min(values) == max(values):  # no rounding of a mean makes a deviation of equal values
            return Summary(values[0], None if len(values) < 2 else 0.0)
        mean = math.fsum(values) / len(values)
        return Summary(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)))


@dataclass(frozen=True)
class SplitFigures:
    """Loss (nats) and accuracy (fraction) on one split."""

    loss: Summary
    accuracy: Summary


@dataclass(frozen=True)
class LeaderboardRow:
    """One candidate. `rank` is None for a row that is not measured under every seed; `reason` says why."""

    rank: int | None
    arm: str
    configuration: InferenceConfiguration
    estimate: PopulationEstimate | None
    batch_size: int
    state: EvaluationState
    seeds: int
    figures: dict[Split, SplitFigures]
    reason: str | None
    point: str = ""

    @property
    def candidate(self) -> Candidate:
        """What the row is of."""
        return self.arm, self.point, self.configuration, self.estimate, self.batch_size

    @property
    def parameters(self) -> str:
        """The point for people."""
        return written_label(self.point)


@dataclass(frozen=True)
class Leaderboard:
    """Ranked rows, then diverged and undefined ones. `ranked_on` is the split that decided the order."""

    ranked_on: Split
    rows: tuple[LeaderboardRow, ...]

    @property
    def best(self) -> LeaderboardRow | None:
        """The first row, None where nothing was measured."""
        return self.rows[0] if self.rows and self.rows[0].rank else None

    @property
    def warning(self) -> str | None:
        """What a reader must know before believing the order."""
        return RANKED_ON_TEST if self.ranked_on is Split.TEST else None


RANKED_ON_TEST = "ranked on the test split, as the published tables are: the first row's test figures are optimistic"

Candidate = tuple[str, str, InferenceConfiguration, PopulationEstimate | None, int]
_LAST = {EvaluationState.MEASURED: 0, EvaluationState.DIVERGED: 1, EvaluationState.UNDEFINED: 2}


def rank(scored: Iterable[Scored], ranked_on: Split = Split.VALIDATION, seeds: int | None = None) -> Leaderboard:
    """Order candidates by mean loss on `ranked_on`, then by higher mean accuracy; equal figures share a rank.

    seeds: how many each candidate must have; by default as many as the candidate that has most. One that is undefined
    or diverged under any seed on `ranked_on`, or lacks seeds, is not ranked and stands behind the others with its
    reason. What happened on other splits has no say. Raises ValueError for two evaluations of one candidate under the
    same seed on the same split.
    """
    candidates: dict[Candidate, list[Scored]] = {}
    for one in scored:
        key = one.evaluation.key
        candidate = (one.arm, one.point, key.configuration, key.estimate, key.batch_size)
        candidates.setdefault(candidate, []).append(one)
    wanted = seeds or max((len({one.seed for one in members}) for members in candidates.values()), default=0)
    rows = [_row(candidate, members, ranked_on, wanted) for candidate, members in candidates.items()]
    rows.sort(key=lambda row: _order(row, ranked_on))
    return Leaderboard(ranked_on, tuple(_with_ranks(rows, ranked_on)))


def _row(candidate: Candidate, members: list[Scored], ranked_on: Split, wanted: int) -> LeaderboardRow:
    by_split: dict[Split, list[Evaluation]] = {}
    deciding = set()
    _check_seeds(members)
    for one in members:
        split = one.evaluation.key.split
        by_split.setdefault(split, []).append(one.evaluation)
        if split is ranked_on:
            deciding.add(one.seed)
    judged = by_split.get(ranked_on) or [one.evaluation for one in members]
    worst = max(judged, key=lambda evaluation: _LAST[evaluation.state])
    found = len(deciding)
    reason = worst.reason
    if worst.state is EvaluationState.MEASURED and found < wanted:
        reason = f"evaluated on {ranked_on} under {found} of {wanted} seeds"
    figures: dict[Split, SplitFigures] = {}
    if worst.state is EvaluationState.MEASURED:
        for split in (Split.VALIDATION, Split.TEST):
            summary = _figures(by_split.get(split, []))
            figures |= {} if summary is None else {split: summary}
    arm, point, configuration, estimate, batch_size = candidate
    seeds = len({one.seed for one in members})
    return LeaderboardRow(None, arm, configuration, estimate, batch_size, worst.state, seeds, figures, reason, point)


def _check_seeds(members: list[Scored]) -> None:
    """Two evaluations under one seed are no two seeds: their mean and deviation would be neither's."""
    counts = Counter((one.seed, one.evaluation.key.split) for one in members)
    (seed, split), count = counts.most_common(1)[0]
    if count > 1:
        key = members[0].evaluation.key
        raise ValueError(
            f"{members[0].arm} {key.configuration} at mini-batches of {key.batch_size} has {count} evaluations under "
            f"seed {seed} on {split}: give each seed once"
        )


def _figures(evaluations: list[Evaluation]) -> SplitFigures | None:
    """Means over seeds; None unless every one is measured."""
    losses = [one.loss for one in evaluations if one.loss is not None]
    accuracies = [one.accuracy for one in evaluations if one.accuracy is not None]
    if not evaluations or len(losses) < len(evaluations):
        return None
    return SplitFigures(Summary.of(losses), Summary.of(accuracies))


def _order(row: LeaderboardRow, split: Split) -> tuple[int, bool, float, float, str, str, str, str, int]:
    figures = row.figures.get(split)
    loss, accuracy = (figures.loss.mean, -figures.accuracy.mean) if figures else (0.0, 0.0)
    lacking = row.reason is not None or figures is None
    place = _LAST[row.state], lacking, loss, accuracy
    return *place, row.arm, row.point, str(row.configuration), row.estimate or "", row.batch_size


def _with_ranks(rows: list[LeaderboardRow], split: Split) -> Iterable[LeaderboardRow]:
    position, previous = 0, None
    for place, row in enumerate(rows, start=1):
        figures = row.figures.get(split)
        if row.state is not EvaluationState.MEASURED or row.reason is not None or figures is None:
            yield row
            continue
        present = figures.loss.mean, figures.accuracy.mean
        if present != previous:
            position, previous = place, present
        yield replace(row, rank=position)
