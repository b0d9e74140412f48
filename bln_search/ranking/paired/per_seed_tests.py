"""Tests of two rows under one seed: McNemar, Wilcoxon signed-rank, paired permutation.

All three apply to that network and other examples, not to other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bln_search.ranking.paired.table import Floats, OutcomeTable

FLIPS = 4_999
"""Random sign flips of the permutation test: p values are multiples of 1/5,000."""

_MAX_EXACT_EXAMPLES = 50
"""Number of examples up to which SciPy computes the exact distribution of the signed-rank statistic."""

_ROUNDING_TOLERANCE = 4e-7
"""Difference, relative to the norm of a row, up to which sums of flipped losses count as equal."""

_MAX_FLIPS_IN_MEMORY = 2**25
"""Limit on the number of sign flips in memory."""


@dataclass(frozen=True)
class PerSeedPValues:
    """Two-sided p values of all pairs under every seed, (S, P)."""

    mcnemar: Floats
    wilcoxon: Floats
    permutation: Floats


def run_per_seed_tests(table: OutcomeTable, *, flips: int = FLIPS, random: int = 0) -> PerSeedPValues:
    """Run the three tests on all pairs under every seed. random: seed of the sign flips."""
    return PerSeedPValues(
        mcnemar_p_values(table), wilcoxon_p_values(table), permutation_p_values(table, flips=flips, random=random)
    )


def mcnemar_p_values(table: OutcomeTable) -> Floats:
    """Exact test of equal accuracy (McNemar 1947): discordant examples follow a binomial distribution with p = 1/2.

    Returns:
        p values, (S, P).
    """
    first, second = table.row_pairs
    correct = table.correct.astype(np.float32)
    both = np.einsum("skn,sjn->skj", correct, correct, optimize=True)
    counts = correct.sum(axis=2)
    only_first = np.rint(counts[:, first] - both[:, first, second])
    only_second = np.rint(counts[:, second] - both[:, first, second])
    fewer = np.minimum(only_first, only_second)
    p: Floats = np.minimum(1.0, 2 * stats.binom.cdf(fewer, only_first + only_second, 0.5))
    return p


def wilcoxon_p_values(table: OutcomeTable) -> Floats:
    """Signed-rank test of a symmetric difference of losses around 0 (Wilcoxon 1945); zero differences are discarded.

    For more than 50 examples the normal approximation with correction for ties is used, as in SciPy, but computed for
    all pairs at once.

    Returns:
        p values, (S, P).
    """
    first, second = table.row_pairs
    rows = []
    for losses in table.losses:
        differences = losses[first] - losses[second]
        rows.append(
            _exact_wilcoxon_p_values(differences)
            if table.num_examples <= _MAX_EXACT_EXAMPLES
            else _approximate_wilcoxon_p_values(differences)
        )
    return np.stack(rows) if len(first) else np.empty((table.num_seeds, 0))


def _exact_wilcoxon_p_values(differences: NDArray[np.float32]) -> Floats:
    """p value of each line of differences (P, N); SciPy chooses another method for lines with ties or zeros."""
    lines = differences.astype(np.float64)
    has_ties_or_zeros = (np.diff(np.sort(np.abs(lines), axis=1), axis=1, prepend=0) <= 0).any(axis=1)
    p: Floats = np.ones(len(lines))
    if not has_ties_or_zeros.all():
        p[~has_ties_or_zeros] = stats.wilcoxon(lines[~has_ties_or_zeros], axis=1).pvalue
    for index in np.flatnonzero(has_ties_or_zeros & lines.any(axis=1)):
        p[index] = stats.wilcoxon(lines[index]).pvalue
    return p


def _approximate_wilcoxon_p_values(differences: NDArray[np.float32]) -> Floats:
    """p value of each line of differences (P, N)."""
    p: Floats = 2 * stats.norm.sf(np.array([_standardized_signed_rank(line) for line in differences]))
    return p


def _standardized_signed_rank(line: NDArray[np.float32]) -> float:
    """Standardized signed-rank statistic.

    The bit patterns of positive floats are ordered as their values, so one sort orders values together with signs.
    """
    line = line[line != 0]
    n = len(line)
    if n == 0:
        return 0.0
    keys = (np.abs(line).view(np.uint32).astype(np.uint64) << np.uint64(1)) | (line > 0)
    keys.sort()
    values = keys >> np.uint64(1)
    starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    sizes = np.diff(np.concatenate([starts, [n]]))
    ranks = np.repeat(starts + (sizes + 1) / 2, sizes)
    positive = ranks[(keys & np.uint64(1)).astype(bool)].sum()
    ties = sizes[sizes > 1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - (ties**3 - ties).sum() / 48
    return float(abs(positive - n * (n + 1) / 4) / np.sqrt(variance))


def permutation_p_values(table: OutcomeTable, *, flips: int = FLIPS, random: int = 0) -> Floats:
    """Paired permutation test of equal mean losses by random sign flips.

    p = (1 + number of flips with a difference at least as large)/(1 + flips) (Phipson & Smyth 2010). All pairs use the
    same flips.

    Args:
        table: Outcomes.
        flips: Number of random sign flips.
        random: Seed of the flips.

    Returns:
        p values, (S, P).
    """
    first, second = table.row_pairs
    seeds, rows, examples = table.losses.shape
    best = int(
        table.losses.mean(axis=(0, 2), dtype=np.float64).argmin()
    )  # so that a row far from all others does not affect rounding
    centred = table.losses - table.losses[:, best : best + 1]
    flat = centred.reshape(seeds * rows, examples)
    total = flat.sum(axis=1, dtype=np.float64).astype(np.float32)
    observed = _sums_of_pair_differences(total.reshape(1, seeds, rows), first, second)[0]
    norms = np.linalg.norm(flat.astype(np.float64), axis=1).reshape(seeds, rows)
    threshold = np.abs(observed) * (1 - 1e-5) - _ROUNDING_TOLERANCE * (norms[:, first] + norms[:, second])
    generator = np.random.default_rng(random)
    extreme = np.zeros(observed.shape, np.int64)
    step = max(1, _MAX_FLIPS_IN_MEMORY // max(examples, seeds * len(first)))
    for start in range(0, flips, step):
        count = min(step, flips - start)
        bits = np.frombuffer(generator.bytes(count * ((examples + 7) // 8)), np.uint8).reshape(count, -1)
        positive = np.unpackbits(bits, axis=1, count=examples).astype(np.float32)
        flipped = _sums_of_pair_differences(
            (2 * (positive @ flat.T) - total).reshape(count, seeds, rows), first, second
        )
        extreme += (np.abs(flipped) >= threshold).sum(axis=0)
    p: Floats = (1 + extreme) / (1 + flips)
    return p


def _sums_of_pair_differences(
    sums: NDArray[np.float32], first: NDArray[np.intp], second: NDArray[np.intp]
) -> NDArray[np.float32]:
    return sums[:, :, first] - sums[:, :, second]
