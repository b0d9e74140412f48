"""How many seeds a study needs, by simulation from the variances of a pilot.

Studies are drawn with true differences that are given: within the best group (an arm, or the best row alone) those of
the pilot; the best row of each other group is above the best row by the effect, or equal to it. Effects of seeds and
examples have the covariances of the pilot (`noise_draws`). Each drawn study is tested as `differences_to_best` tests a
real one, all rows together; the row that is the best of the pilot stays the one to which the others are compared. The
power is the share of studies with the right verdict on a group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.ranking.comparison import MAX_REQUIRED_SEEDS, POWER
from bln_search.ranking.paired.crossed_anova import ContrastVariances
from bln_search.ranking.paired.differences_to_best import (
    DifferencesToBest,
    compare_rows_with_best,
    differences_to_best,
)
from bln_search.ranking.paired.distinct_rows import DistinctRows, find_distinct_rows
from bln_search.ranking.paired.noise_draws import draw_noise
from bln_search.ranking.paired.seed_variances import Pairs
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.ranking.statistics.intervals import ALPHA

SEED_COUNTS = (3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, MAX_REQUIRED_SEEDS)
"""Numbers of seeds that are tried, ascending."""

_STUDIES = 200
_MAX_DRAWN_EXAMPLES = 100
"""Examples of a drawn study, which together have the variance of all: more would only take longer."""


@dataclass(frozen=True)
class GroupPower:
    """What the pilot shows of a group, and the seeds with which a study decides about it.

    Attributes:
        row: Index of its best row in the table.
        difference: Mean loss of that row minus that of the best row in the pilot.
        of_seeds: Standard deviation between seeds of this difference.
        of_examples: Standard error of this difference that examples add, which more seeds do not reduce.
        worse: Seeds with which it is significantly worse with the given power if the true difference is the effect;
            None where `SEED_COUNTS` are too few.
        equal: Seeds with which it is practically equal with that power if there is no true difference.
    """

    row: int
    difference: float
    of_seeds: float
    of_examples: float
    worse: int | None
    equal: int | None


@dataclass(frozen=True)
class SeedPlan:
    """The plan of a study.

    Attributes:
        groups: Every group but that of the best row, by increasing difference; none where all are practically equal.
        best_row: Index of the best row in the table.
        effect: True difference of losses that is to be found.
        margin: Difference up to which rows are practically equal.
        power: Share of the studies that decide.
        seeds: Number of seeds of the pilot.
        rows: Number of distinct rows, all of which are compared.
        studies: Number of drawn studies for each number of seeds.
    """

    groups: tuple[GroupPower, ...]
    best_row: int
    effect: float
    margin: float
    power: float
    seeds: int
    rows: int
    studies: int


def plan_seeds(
    table: OutcomeTable,
    groups: Sequence[int],
    *,
    effect: float | None = None,
    margin: float | None = None,
    power: float = POWER,
    studies: int = _STUDIES,
    on_progress: Callable[[int], None] = lambda _: None,
) -> SeedPlan:
    """Estimate the number of seeds that decide about each group.

    Args:
        table: Outcomes of the pilot, with at least two seeds.
        groups: Number of the group of each row, (K,). Where all are of one group, each row is one of its own, but those
            that are practically equal to the best row belong to its group.
        effect: True difference of losses to the best row that is to be found, above 0; None for the margin.
        margin: Difference of mean losses up to which rows are practically equal; None for the default.
        power: Share of the studies that should decide, in (0, 1).
        studies: Number of drawn studies for each number of seeds.
        on_progress: Called with each number of seeds before its studies are drawn.

    Raises:
        DataError: The pilot has one seed, all its rows are equal, `effect` or `power` is out of its range, or
            the margin is 0 and there is no effect.
    """
    for name, value, high in (("effect", effect, np.inf), ("power", power, 1.0)):
        if value is not None and not 0 < value < high:  # NaN neither
            raise DataError(f"{name} {value}: it must be above 0{' and below 1' if high == 1 else ' and finite'}")
    if table.num_seeds < 2:
        raise DataError("the study has one seed: a plan needs the variance between seeds, of a pilot with two or more")
    kept = find_distinct_rows(table.losses).kept
    if len(kept) < 2:
        raise DataError("all rows have the same losses: there is nothing that more seeds could decide")
    distinct = table.restrict_to_rows(kept.tolist())
    means = distinct.losses.mean(axis=(0, 2), dtype=np.float64)
    best = int(means.argmin())
    of_row = np.asarray(groups)[kept]
    margin = default_margin(float(means[best]), has_correctness=table.has_correctness) if margin is None else margin
    if len(np.unique(of_row)) == 1:
        beyond = differences_to_best(distinct, "loss", best, margin).beyond_margin
        of_row = np.where(beyond < ALPHA, best, np.arange(len(kept)))
    effect = margin if effect is None else effect
    if effect == 0:
        raise DataError("the margin is 0: give the effect, a difference above 0 that is to be found")
    pilot = _Pilot.of(distinct, best)

    @cache
    def shares(position: int, *, is_equal: bool) -> Floats:
        on_progress(SEED_COUNTS[position])
        true = _true_means(means, of_row, best, 0.0 if is_equal else effect)
        return pilot.share_of_right_verdicts(true, SEED_COUNTS[position], margin, studies, is_equal=is_equal)

    def required(row: int, *, is_equal: bool) -> int | None:
        enough = bisect_left(
            range(len(SEED_COUNTS)),
            x=True,
            key=lambda position: bool(shares(position, is_equal=is_equal)[row] >= power),
        )
        return SEED_COUNTS[enough] if enough < len(SEED_COUNTS) else None

    return SeedPlan(
        tuple(
            GroupPower(
                row=int(kept[row]),
                difference=float(means[row] - means[best]),
                of_seeds=float(pilot.of_seeds[:, row].std() * np.sqrt(table.num_seeds)),
                of_examples=float(pilot.of_examples[:, row].std()),
                worse=required(row, is_equal=False),
                equal=required(row, is_equal=True),
            )
            for row in sorted(_first_row_of_each_group(means, of_row, best), key=means.__getitem__)
        ),
        int(kept[best]),
        effect,
        margin,
        power,
        table.num_seeds,
        len(kept),
        studies,
    )


@dataclass(frozen=True)
class _Pilot:
    """Draws with the covariances of the means of a pilot of `seeds` seeds and `examples` examples, (B, K) each."""

    of_seeds: Floats
    of_examples: Floats
    best: int
    seeds: int
    examples: int

    @classmethod
    def of(cls, table: OutcomeTable, best: int) -> _Pilot:
        """Estimate them, with moderated variances between seeds."""
        noise = draw_noise(table, best).with_moderated_variances(
            differences_to_best(table, "loss", best), table.num_seeds
        )
        return cls(noise.of_seeds, noise.of_examples, best, table.num_seeds, table.num_examples)

    def share_of_right_verdicts(
        self, true: Floats, seeds: int, margin: float, studies: int, *, is_equal: bool
    ) -> Floats:
        """Share of drawn studies in which the verdict on each row is right, (K,).

        Args:
            true: True means, (K,).
            seeds: Seeds of a drawn study.
            margin: Difference up to which rows are practically equal.
            studies: Number of drawn studies.
            is_equal: Whether rows should be practically equal to the best one; otherwise worse.
        """
        generator = np.random.default_rng(seeds)
        right = np.zeros(len(true))
        for _ in range(studies):
            compared = _compare(*self._draw(true, seeds, generator), self.best, margin)
            right += compared.beyond_margin < ALPHA if is_equal else (compared.adjusted < ALPHA) & (compared.mean > 0)
        return right / studies

    def _draw(self, true: Floats, seeds: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        """Effects of the seeds of a study on each row, with the true means, (S, K), and of its examples, (N, K)."""
        count = min(self.examples, _MAX_DRAWN_EXAMPLES)
        of_seed = self.of_seeds[generator.integers(len(self.of_seeds), size=seeds)] * np.sqrt(self.seeds)
        of_example = self.of_examples[generator.integers(len(self.of_examples), size=count)] * np.sqrt(count)
        return true + of_seed, of_example


def _compare(of_seed: Floats, of_example: Floats, best: int, margin: float) -> DifferencesToBest:
    """Differences to row `best` in a study whose losses are sums of effects of seeds, (S, K), and of examples, (N, K).

    Variances of all pairs follow from the covariances of the rows, so the losses themselves are not needed.
    """
    means = of_seed.mean(axis=0) + of_example.mean(axis=0)
    rows = np.arange(len(means))

    def contrasts_of_pairs(pairs: Pairs) -> ContrastVariances:
        first, second = pairs
        of_examples = _variance_of_mean(of_example, pairs), max(1, len(of_example) - 1)
        return ContrastVariances(
            len(of_seed), means[first] - means[second], _variance_of_mean(of_seed, pairs), [of_examples]
        )

    return compare_rows_with_best(DistinctRows(rows, rows), best, contrasts_of_pairs, margin, with_intervals=False)


def _variance_of_mean(effects: Floats, pairs: Pairs) -> Floats:
    """Variance of the mean difference of each pair of rows, (P,), from effects (n, K)."""
    if len(effects) == 1:
        return np.zeros(len(pairs[0]))
    centred = effects - effects.mean(axis=0)
    covariances = centred.T @ centred / (len(effects) * (len(effects) - 1))
    of_row = covariances.diagonal()
    variances: Floats = np.maximum(of_row[pairs[0]] + of_row[pairs[1]] - 2 * covariances[pairs], 0.0)
    return variances


def _first_row_of_each_group(means: Floats, groups: NDArray[np.intp], best: int) -> list[int]:
    """The row of lowest mean loss of each group but that of the best row."""
    rows = [np.flatnonzero(groups == group) for group in np.unique(groups) if group != groups[best]]
    return [int(of_group[means[of_group].argmin()]) for of_group in rows]


def _true_means(means: Floats, groups: NDArray[np.intp], best: int, offset: float) -> Floats:
    """Means in which the best row of each other group is above the best row by the offset, (K,)."""
    true: Floats = means - means[best]
    for row in _first_row_of_each_group(means, groups, best):
        is_member = groups == groups[row]
        true[is_member] += offset - true[row]
    return true
