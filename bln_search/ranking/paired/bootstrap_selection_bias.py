"""Selection bias of the row of lowest mean loss.

The lowest of K noisy means is below the true mean of its row: by the expected minimum of the noise where all rows are
equal, by nothing where one row is far ahead. A bootstrap around the observed means underestimates this by a factor of
1/√2 where rows are equal, because the best row of a draw is selected by the noise of the draw and that of the data in
equal parts. The coupled bootstrap (Oliveira, Lei & Tibshirani 2021; data fission, Leiner et al. 2023) does not: for
noise Z that is independent of the means Y and has their covariance, Y + Z and Y − Z are independent. A row is selected
on one of them and evaluated on the other. The gap is the bias of a selection among means with a standard error √2 times
as large, so it is divided by √2.

The estimate is unbiased where each row equals the best one or is far from it. In between, rows count as √2 times closer
than they are, so the estimate is too large: for two rows by at most 0.1 standard errors of their difference.

Z consists of contrasts of the data: of the means of seeds, with random coefficients of sum 0 and length 1, and of the
means of examples. A contrast of normal values is independent of their mean and has the covariance of one value, however
few values there are. Few seeds therefore need no correction; resampling S seeds would give (S − 1)/S of the variance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.paired.bootstrap import BOOTSTRAP_DRAWS
from bln_search.ranking.paired.table import Floats, OutcomeTable

_MAX_COEFFICIENTS_IN_MEMORY = 2**24
"""Limit on the number of coefficients in memory."""


def estimate_selection_bias(table: OutcomeTable, *, draws: int = BOOTSTRAP_DRAWS, random: int = 0) -> float:
    """Expected mean loss of the selected row over other seeds and examples, minus its observed mean loss; nats.

    Never negative, and 0 for one row.

    Args:
        table: Outcomes of the rows from which the row of lowest mean loss is selected.
        draws: Number of draws; each of draws/2 draws of the noise is used with both signs.
        random: Seed of the draws.
    """
    means = table.losses.mean(axis=(0, 2), dtype=np.float64)
    noise = _draw_noise_of_mean_differences(
        table, int(means.argmin()), max(1, draws // 2), np.random.default_rng(random)
    )
    lines = np.arange(len(noise))
    added = noise[lines, (means + noise).argmin(axis=1)]
    subtracted = noise[lines, (means - noise).argmin(axis=1)]
    return float((subtracted - added).mean() / np.sqrt(2))


def _draw_noise_of_mean_differences(
    table: OutcomeTable, best: int, draws: int, generator: np.random.Generator
) -> Floats:
    """Draws with the covariance of the differences of the means of all rows to that of the best row, (draws, K).

    The variance is (MS_seed + max(MS_example − MS_residual, 0))/(S·N), as in the crossed analysis of variance.
    """
    of_seed, of_example = _seed_and_example_effects(table, best)
    noise = _draw_contrasts(of_example, draws, generator)
    return noise if table.num_seeds == 1 else noise + _draw_contrasts(of_seed, draws, generator)


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
    """Contrasts of the effects (n, K) with random coefficients of length 1/√n that sum to 0, (draws, K)."""
    count = len(effects)
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
