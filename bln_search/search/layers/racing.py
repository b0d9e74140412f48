"""Many configurations at once, dropped as soon as paired tests tell them from the best one.

Generations, as in iterated racing (López-Ibáñez et al. 2016): the survivors of a race meet new candidates drawn around
them. In a race, mini-batches come in a few at a time; behind each of them Student's paired t over mini-batch means
compares every candidate with the leader, with the level divided by the number of candidates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bln_search.evaluation.tree.trie import Digits
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.search.layers.loss_source import Floats
from bln_search.search.layers.objective import Judge

_CANDIDATES = 48
_SURVIVORS = 8
_CHANGED = 0.3
"""Chance of each choice to be drawn anew around a survivor."""

_FIRST = 5
"""Mini-batches before the first test."""

_STEPS = 6
"""Tests in a race."""


def racing(judge: Judge, seed: int) -> None:
    """Races until the budget is spent."""
    draw = np.random.default_rng(seed)
    uniform = np.array(list(judge.space.uniform().values()), np.uint8).reshape(-1, len(judge.space.radices))
    survivors = race(judge, np.concatenate([uniform, _anywhere(judge, draw, _CANDIDATES)]), draw)
    idle = 0
    while idle < 50:
        before = judge.spent
        candidates = np.concatenate([survivors, _around(judge, draw, survivors)])
        survivors = race(judge, candidates, draw)
        idle = idle + 1 if judge.spent == before else 0


def race(judge: Judge, candidates: Digits, draw: np.random.Generator) -> Digits:
    """The best of the candidates that are left behind the last mini-batch, a few of them."""
    alive = np.unique(candidates, axis=0)
    order = [judge.batches[place] for place in draw.permutation(len(judge.batches))]
    for seen in _schedule(len(order)):
        if len(alive) == 1 and seen < len(order):
            continue
        sums = judge.parts(alive, order[:seen]) / judge.figures.examples[order[:seen]]
        alive = alive[_kept(sums)]
    judge.settle(alive)
    return alive[np.argsort(judge.losses(alive), kind="stable")[:_SURVIVORS]]


def _schedule(batches: int) -> list[int]:
    """How many mini-batches are in at each test."""
    first = min(_FIRST, batches)
    return sorted({*np.linspace(first, batches, _STEPS).astype(int).tolist(), batches})


def _kept(means: Floats) -> NDArray[np.bool_]:
    """Which candidates (rows of mini-batch means) are not told from the leader."""
    totals = means.sum(1)
    leader = int(np.argmin(totals))
    if not np.isfinite(totals[leader]):
        return np.ones(len(means), bool)
    finite = np.isfinite(totals)
    differences = np.where(finite[:, None], means, 0.0) - means[leader]
    count = means.shape[1]
    if count < 2:
        return np.asarray(finite)
    error = differences.std(1, ddof=1) / np.sqrt(count)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, differences.mean(1) / error, np.where(differences.mean(1) > 0, np.inf, 0.0))
    bound = stats.t.isf(ALPHA / max(1, len(means) - 1), count - 1)
    kept: NDArray[np.bool_] = finite & ~(t > bound)
    return kept


def _anywhere(judge: Judge, draw: np.random.Generator, count: int) -> Digits:
    return np.stack([draw.integers(radix, size=count) for radix in judge.space.radices], axis=1).astype(np.uint8)


def _around(judge: Judge, draw: np.random.Generator, survivors: Digits) -> Digits:
    """New candidates: survivors with some choices drawn anew, better ones more often."""
    weights = np.arange(len(survivors), 0, -1, dtype=float)
    parents = draw.choice(len(survivors), size=_CANDIDATES, p=weights / weights.sum())
    found = survivors[parents].copy()
    changed = draw.random(found.shape) < _CHANGED
    changed[np.arange(_CANDIDATES), draw.integers(found.shape[1], size=_CANDIDATES)] = True
    found[changed] = _anywhere(judge, draw, _CANDIDATES)[changed]
    return found
