"""Two rows compared on the examples of one network: McNemar, Wilcoxon signed-rank, paired permutation.

All three say something about that network and other examples, nothing about another seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bln_search.ranking.paired.table import Floats, OutcomeTable

FLIPS = 4_999
"""Random sign flips of the permutation test: its p is a multiple of 1/5,000."""

_SMALL = 50
"""Up to so many examples SciPy counts the signed-rank statistic out."""

_ROUNDING = 4e-7
"""Of a row's length: sums of flipped losses that are closer than that are taken for equal."""

_AT_ONCE = 2**25
"""Numbers of sign flips held at once."""


@dataclass(frozen=True)
class WithinSeed:
    """Two-sided p of every pair under every seed, (S, P)."""

    mcnemar: Floats
    wilcoxon: Floats
    permutation: Floats


def within_seeds(table: OutcomeTable, *, flips: int = FLIPS, random: int = 0) -> WithinSeed:
    """The three tests of every pair under every seed. random: seed of the flips."""
    return WithinSeed(mcnemar(table), wilcoxon(table), permutation(table, flips=flips, random=random))


def mcnemar(table: OutcomeTable) -> Floats:
    """Exact test that both rows are right as often (McNemar 1947): examples that one alone gets right are a fair coin.

    Returns p (S, P).
    """
    first, second = table.pairs
    right = table.correct.astype(np.float32)
    both = np.einsum("skn,sjn->skj", right, right, optimize=True)
    counts = right.sum(axis=2)
    one = np.rint(counts[:, first] - both[:, first, second])
    other = np.rint(counts[:, second] - both[:, first, second])
    p: Floats = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(one, other), one + other, 0.5))
    return p


def wilcoxon(table: OutcomeTable) -> Floats:
    """Signed-rank test that losses differ to both sides alike (Wilcoxon 1945); examples without a difference are out.

    More than 50 examples: the normal approximation with its correction for ties, as SciPy's, computed for all pairs at
    once. Returns p (S, P).
    """
    first, second = table.pairs
    rows = []
    for losses in table.losses:
        differences = losses[first] - losses[second]
        rows.append(_exact(differences) if table.examples <= _SMALL else _approximate(differences))
    return np.stack(rows) if len(first) else np.empty((table.seeds, 0))


def _exact(differences: NDArray[np.float32]) -> Floats:
    found = [float(stats.wilcoxon(one.astype(np.float64)).pvalue) if np.any(one) else 1.0 for one in differences]
    return np.array(found)


def _approximate(differences: NDArray[np.float32]) -> Floats:
    """p of each line of differences (P, N)."""
    p: Floats = 2 * stats.norm.sf(np.array([_signed_rank(line) for line in differences]))
    return p


def _signed_rank(line: NDArray[np.float32]) -> float:
    """How many standard deviations the statistic is from what chance leads to expect.

    Bits of a positive float are ordered as its value is: value and sign go through one sort together.
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


def permutation(table: OutcomeTable, *, flips: int = FLIPS, random: int = 0) -> Floats:
    """Sign-flip test that the mean loss is the same: which row an example's losses belong to does not matter.

    p = (1 + flips at least as far from zero)/(1 + flips), after Phipson & Smyth (2010). The same flips serve every
    pair. Returns p (S, P).
    """
    first, second = table.pairs
    seeds, rows, examples = table.losses.shape
    best = int(table.losses.mean(axis=(0, 2), dtype=np.float64).argmin())  # a row far from all others has no part in it
    centred = table.losses - table.losses[:, best : best + 1]
    flat = centred.reshape(seeds * rows, examples)
    whole = flat.sum(axis=1, dtype=np.float64).astype(np.float32)
    observed = _pairs_of(whole.reshape(1, seeds, rows), first, second)[0]
    lengths = np.linalg.norm(flat.astype(np.float64), axis=1).reshape(seeds, rows)
    least = np.abs(observed) * (1 - 1e-5) - _ROUNDING * (lengths[:, first] + lengths[:, second])
    generator = np.random.default_rng(random)
    extreme = np.zeros(observed.shape, np.int64)
    step = max(1, _AT_ONCE // max(examples, seeds * len(first)))
    for start in range(0, flips, step):
        count = min(step, flips - start)
        bits = np.frombuffer(generator.bytes(count * ((examples + 7) // 8)), np.uint8).reshape(count, -1)
        kept = np.unpackbits(bits, axis=1, count=examples).astype(np.float32)
        flipped = _pairs_of((2 * (kept @ flat.T) - whole).reshape(count, seeds, rows), first, second)
        extreme += (np.abs(flipped) >= least).sum(axis=0)
    p: Floats = (1 + extreme) / (1 + flips)
    return p


def _pairs_of(sums: NDArray[np.float32], first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.float32]:
    return sums[:, :, first] - sums[:, :, second]
