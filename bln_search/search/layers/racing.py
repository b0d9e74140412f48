"""Racing: many configurations at once, each dropped when a paired test shows that it is worse than the best one.

Generations, as in iterated racing (López-Ibáñez et al. 2016): the survivors of a race meet new candidates that are
drawn around them. In a race the mini-batches are evaluated a few at a time. After each step Student's paired t over
mini-batch means compares every candidate with the leader, at a level that is divided by the number of candidates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bln_search.evaluation.tree.trie import Digits
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.search.layers.loss_source import Floats
from bln_search.search.layers.objective import BudgetedObjective

_CANDIDATES = 48
_SURVIVORS = 8
_MUTATION_RATE = 0.3
"""Probability that a choice of a survivor is drawn again for a new candidate."""

_FIRST_TEST = 5
"""Mini-batches before the first test."""

_TESTS = 6
"""Tests in a race."""

_MAX_IDLE_RACES = 50
"""Races in a row without a new configuration after which the search ends."""


def search_by_repeated_races(objective: BudgetedObjective, seed: int) -> None:
    """Run races until the budget is spent."""
    rng = np.random.default_rng(seed)
    space = objective.space
    uniform = np.array(list(space.choice_digits_by_uniform_configuration().values()), np.uint8).reshape(
        -1, len(space.num_options_per_choice)
    )
    candidates = np.concatenate([uniform, objective.draw_configurations(rng, _CANDIDATES)])
    survivors = run_race(objective, candidates, rng)
    idle_races = 0
    while idle_races < _MAX_IDLE_RACES:
        spent_before = objective.spent
        candidates = np.concatenate([survivors, _draw_mutated_copies(objective, rng, survivors)])
        survivors = run_race(objective, candidates, rng)
        idle_races = idle_races + 1 if objective.spent == spent_before else 0


def run_race(objective: BudgetedObjective, candidates: Digits, rng: np.random.Generator) -> Digits:
    """The best candidates that are left after the last mini-batch, at most _SURVIVORS, best first."""
    remaining = np.unique(candidates, axis=0)
    order = [objective.batches[index] for index in rng.permutation(len(objective.batches))]
    for count in _mini_batch_counts_of_tests(len(order)):
        if len(remaining) == 1 and count < len(order):
            continue
        means = objective.sum_losses_by_mini_batch(remaining, order[:count]) / objective.source.examples[order[:count]]
        remaining = remaining[_mask_of_not_worse_candidates(means)]
    objective.record_paid_mean_losses(remaining)
    return remaining[np.argsort(objective.mean_losses(remaining), kind="stable")[:_SURVIVORS]]


def _mini_batch_counts_of_tests(batches: int) -> list[int]:
    """The number of evaluated mini-batches at each test."""
    first = min(_FIRST_TEST, batches)
    return sorted({*np.linspace(first, batches, _TESTS).astype(int).tolist(), batches})


def _mask_of_not_worse_candidates(means: Floats) -> NDArray[np.bool_]:
    """Which candidates are not significantly worse than the leader.

    Args:
        means: Mean losses, (candidates, mini-batches).

    Returns:
        (candidates,).
    """
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
    critical_value = -special.stdtrit(count - 1, ALPHA / max(1, len(means) - 1))
    not_worse: NDArray[np.bool_] = finite & ~(t > critical_value)
    return not_worse


def _draw_mutated_copies(objective: BudgetedObjective, rng: np.random.Generator, survivors: Digits) -> Digits:
    """New candidates: survivors, better ones more often, with some choices drawn again, at least one."""
    weights = np.arange(len(survivors), 0, -1, dtype=float)
    parents = rng.choice(len(survivors), size=_CANDIDATES, p=weights / weights.sum())
    candidates = survivors[parents].copy()
    mutated = rng.random(candidates.shape) < _MUTATION_RATE
    mutated[np.arange(_CANDIDATES), rng.integers(candidates.shape[1], size=_CANDIDATES)] = True
    candidates[mutated] = objective.draw_configurations(rng, _CANDIDATES)[mutated]
    return candidates
