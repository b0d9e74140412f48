"""Draws with the covariance of the mean losses of all rows, and what follows from them.

*Selection bias.* The lowest of K noisy means is below the true mean of its row: by the expected minimum of the noise
where all rows are equal, by nothing where one row is far ahead. A bootstrap around the observed means underestimates
this by a factor of 1/√2 where rows are equal, because the best row of a draw is selected by the noise of the draw and
that of the data in equal parts. The coupled bootstrap (Oliveira, Lei & Tibshirani 2021; data fission, Leiner et al.
2023) does not: for noise Z that is independent of the means Y and has their covariance, Y + Z and Y − Z are
independent. A row is selected on one of them and evaluated on the other. The gap is the bias of a selection among means
with a standard error √2 times as large, so it is divided by √2. The estimate is unbiased where each row equals the best
one or is far from it. In between, rows count as √2 times closer than they are, so the estimate is too large: for two
rows by at most 0.1 standard errors of their difference.

*P(best)* of a row is the share of draws of the means in which it has the lowest one.

*Required data.* The observed means are taken as the true ones, and studies of more seeds or examples are drawn, whose
noise is that much smaller. The number is the least with which 80 % of these studies are decided: no row is better by
the margin or more than the row that is the best now, or than a preferred one.

Z consists of contrasts of the data: of the means of seeds, with random coefficients of sum 0 and length 1, and of the
means of examples. A contrast of normal values is independent of their mean and has the covariance of one value, however
few values there are. Few seeds therefore need no correction; resampling S seeds would give (S − 1)/S of the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bln_search.ranking.comparison import MAX_REQUIRED_SEEDS, POWER, RequiredData
from bln_search.ranking.paired.crossed_anova import MIN_MODERATED_ROWS, MIN_MODERATED_SEEDS, ContrastEstimates
from bln_search.ranking.paired.differences_to_best import PREFERRED_SHARE
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA

DRAWS = 2_000
_DRAWS_OF_REQUIRED_DATA = 400

_MIN_SEEDS_OF_CONTRASTS = 5

_MAX_EXAMPLE_FACTOR = 1_000
"""Largest required number of examples that is named, in multiples of those of the table."""

_MAX_COEFFICIENTS_IN_MEMORY = 2**24
"""Limit on the number of coefficients in memory."""


@dataclass(frozen=True)
class NoiseDraws:
    """Draws with the covariance of the differences of the means of all rows to that of row `best`.

    The variance is (MS_seed + max(MS_example − MS_residual, 0))/(S·N), as in the crossed analysis of variance.

    Attributes:
        of_seeds: The part that more seeds would reduce, (B, K); 0 for one seed.
        of_examples: The part that more examples would reduce, (B, K); 0 for one example.
    """

    of_seeds: Floats
    of_examples: Floats

    @property
    def total(self) -> Floats:
        """Both parts, (B, K)."""
        total: Floats = self.of_seeds + self.of_examples
        return total

    def with_moderated_variances(self, differences: ContrastEstimates, seeds: int, random: int = 0) -> NoiseDraws:
        """Draws with the variances between seeds of these differences.

        Contrasts of few seeds span few dimensions, in which all rows would move together: below
        `_MIN_SEEDS_OF_CONTRASTS` seeds the effects of rows are drawn independently.

        Args:
            differences: Differences of all rows to the best one.
            seeds: Number of seeds.
            random: Seed of independent draws.
        """
        variances = differences.of_seeds
        if seeds >= _MIN_SEEDS_OF_CONTRASTS or not variances.any():
            deviation = self.of_seeds.std(axis=0)
            scale = np.sqrt(variances) / np.where(deviation > 0, deviation, 1.0)
            return replace(self, of_seeds=self.of_seeds * scale)
        generator = np.random.default_rng([random, seeds])
        of_best = variances[variances > 0].min() / 2
        effects = generator.standard_normal(self.of_seeds.shape) * np.sqrt(np.maximum(variances - of_best, 0.0))
        best = np.sqrt(of_best) * generator.standard_normal((len(effects), 1))
        return replace(self, of_seeds=np.where(variances > 0, effects - best, 0.0))


def draw_noise(table: OutcomeTable, best: int, *, draws: int = DRAWS, random: int = 0) -> NoiseDraws:
    """Draw noise. random: seed of the draws."""
    generator = np.random.default_rng(random)
    of_seed, of_example = _seed_and_example_effects(table, best)
    of_examples = _draw_contrasts(of_example, draws, generator)
    return NoiseDraws(_draw_contrasts(of_seed, draws, generator), of_examples)


def estimate_selection_bias(means: Floats, noise: NoiseDraws) -> float:
    """Expected mean loss of the selected row over other seeds and examples, minus its observed mean loss; nats.

    Never negative, and 0 for one row. means: mean losses, (K,); each draw of the noise is used with both signs.
    """
    total = noise.total
    lines = np.arange(len(total))
    added = total[lines, (means + total).argmin(axis=1)]
    subtracted = total[lines, (means - total).argmin(axis=1)]
    return float((subtracted - added).mean() / np.sqrt(2))


def first_place_share_of_each_row(means: Floats, noise: NoiseDraws, equal_to: NDArray[np.intp]) -> Floats:
    """Share of draws in which each row has the lowest mean, (K,); equal rows share their draws.

    Args:
        means: Mean losses, (K,).
        noise: Draws.
        equal_to: For each row the number of the set of equal rows to which it belongs, (K,).
    """
    of_sets = np.bincount(equal_to[(means + noise.total).argmin(axis=1)], minlength=equal_to.max() + 1)
    shares: Floats = (of_sets / np.bincount(equal_to) / len(noise.of_seeds))[equal_to]
    return shares


def estimate_required_data(
    table: OutcomeTable, means: Floats, noise: NoiseDraws, margin: float, rows: Sequence[int]
) -> RequiredData:
    """Numbers of seeds, and of examples, with which most studies would be decided; see the module.

    Args:
        table: Outcomes of the rows.
        means: Mean losses, (K,).
        noise: Draws.
        margin: Difference up to which rows are practically equal.
        rows: The best row and the preferred ones, of which one is to be settled.
    """
    seeds, examples = table.num_seeds, table.num_examples
    few = NoiseDraws(noise.of_seeds[:_DRAWS_OF_REQUIRED_DATA], noise.of_examples[:_DRAWS_OF_REQUIRED_DATA])

    is_moderated = len(means) >= MIN_MODERATED_ROWS

    def is_decided(seeds: int, of_seeds: Floats, of_examples: Floats) -> bool:
        degrees = np.inf if seeds == 1 or (is_moderated and seeds >= MIN_MODERATED_SEEDS) else seeds - 1
        return _decided_share(means, of_seeds, of_examples, degrees, margin, rows) >= POWER

    def decided_with_seeds(count: int) -> bool:
        return is_decided(count, few.of_seeds * np.sqrt(seeds / count), few.of_examples)

    def decided_with_examples(count: int) -> bool:
        return is_decided(seeds, few.of_seeds, few.of_examples * np.sqrt(examples / count))

    return RequiredData(
        seeds=_smallest_count(decided_with_seeds, seeds, MAX_REQUIRED_SEEDS) if seeds > 1 else None,
        examples=_smallest_count(decided_with_examples, examples, _MAX_EXAMPLE_FACTOR * examples)
        if examples > 1
        else None,
        limited_by_examples=seeds > 1 and not is_decided(1, 0 * few.of_seeds, few.of_examples),
    )


def _smallest_count(is_enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest count above `low` that is enough, by bisection to within 2 %; None where `high` is not."""
    if not is_enough(high):
        return None
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _decided_share(
    means: Floats, of_seeds: Floats, of_examples: Floats, degrees: float, margin: float, rows: Sequence[int]
) -> float:
    """Share of draws (B, K) in which one of `rows` is settled: no row is better by the margin or more.

    degrees: degrees of freedom of the variance between seeds; infinite where it is known.
    """
    drawn = means + of_seeds + of_examples
    is_decided = np.zeros(len(drawn), np.bool_)
    level = ALPHA * PREFERRED_SHARE / max(1, len(rows) - 1)  # of each preferred row, about
    z = float(special.ndtri(1 - level))
    t = float(special.stdtrit(degrees, 1 - level)) if np.isfinite(degrees) else z
    for row in rows:
        squared = t**2 * (of_seeds - of_seeds[:, [row]]).var(axis=0) + z**2 * (of_examples - of_examples[:, [row]]).var(
            axis=0
        )
        critical = np.sqrt(squared)
        critical[row] = -np.inf
        is_decided |= (drawn - drawn[:, [row]] + margin >= critical).all(axis=1)
    return float(is_decided.mean())


def _seed_and_example_effects(table: OutcomeTable, best: int) -> tuple[Floats, Floats]:
    """Effects of seeds, (S, K), and of examples, (N, K), on the difference of every row to the best one.

    Both contain residual variance; effects of examples are scaled so that it counts once.
    """
    of_seed, of_example = np.empty((table.num_seeds, table.num_rows)), np.empty((table.num_examples, table.num_rows))
    for row in range(table.num_rows):
        cells = table.losses[:, row].astype(np.float64) - table.losses[:, best]
        cells -= cells.mean()
        of_seed[:, row], of_example[:, row] = cells.mean(axis=1), cells.mean(axis=0)
        cells -= of_seed[:, row, None]
        cells -= of_example[:, row]
        of_example[:, row] *= np.sqrt(_example_variance_share(of_example[:, row], cells))
    return of_seed, of_example


def _example_variance_share(of_example: Floats, residuals: Floats) -> float:
    """max(MS_example − MS_residual, 0)/MS_example of one row. residuals: (S, N)."""
    seeds = len(residuals)
    square = seeds * float((of_example**2).sum())
    if seeds == 1 or square == 0:
        return 1.0
    return max(0.0, 1 - float((residuals**2).sum()) / ((seeds - 1) * square))


def _draw_contrasts(effects: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Contrasts of the effects (n, K) with random coefficients of length 1/√n that sum to 0, (draws, K).

    They are 0 for n = 1.
    """
    count = len(effects)
    if count == 1:
        return np.zeros((draws, effects.shape[1]))
    step = max(1, _MAX_COEFFICIENTS_IN_MEMORY // count)
    sizes = [min(step, draws - start) for start in range(0, draws, step)]
    drawn: Floats = np.concatenate(
        [_draw_contrast_directions(size, count, generator) @ effects for size in sizes]
    ) / np.sqrt(count)
    return drawn


def _draw_contrast_directions(draws: int, count: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Random directions, (draws, count), uniform among those that sum to 0."""
    directions = generator.standard_normal((draws, count), dtype=np.float32)
    directions -= directions.mean(axis=1, keepdims=True)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions
