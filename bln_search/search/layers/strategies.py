"""Searches for spaces that are too large to enumerate. Each spends the evaluations of a BudgetedObjective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.search.layers.objective import BudgetedObjective, BudgetSpentError
from bln_search.search.layers.racing import search_by_repeated_races

_RANDOM_BATCH = 64
"""Random configurations that are evaluated together."""


@dataclass(frozen=True)
class StrategyOptions:
    """Options of the searches.

    Attributes:
        width: Prefixes that a beam search keeps.
        restarts: Configurations from which a coordinate search starts.
        seed: Seed of the random numbers.
    """

    width: int = 8
    restarts: int = 4
    seed: int = 0


def search_within_budget(
    kind: LayerSearchAlgorithm, objective: BudgetedObjective, options: StrategyOptions | None = None
) -> None:
    """Evaluate the uniform configurations, then search until the budget is spent or the search ends by itself."""
    options = options or StrategyOptions()
    try:
        uniform = objective.space.choice_digits_by_uniform_configuration().values()
        if uniform:
            objective.mean_losses(np.array(list(uniform), np.uint8))
        _SEARCHES[kind](objective, options)
    except BudgetSpentError:
        return


def run_beam_search(objective: BudgetedObjective, options: StrategyOptions) -> None:
    """Beam search, choice by choice: extend each of the best prefixes with every option.

    The later choices are those of the best uniform configuration, in later passes those of the best configuration of
    the last pass. The search ends after a pass without an improvement.
    """
    later_digits = objective.best.digits
    while True:
        best_before = objective.best.loss
        prefixes: list[tuple[int, ...]] = [()]
        for index, radix in enumerate(objective.space.num_options_per_choice):
            extended = [(*prefix, digit) for prefix in prefixes for digit in range(radix)]
            losses = objective.mean_losses(
                np.array([(*prefix, *later_digits[index + 1 :]) for prefix in extended], np.uint8)
            )
            prefixes = [extended[position] for position in np.argsort(losses, kind="stable")[: options.width]]
        if not objective.best.loss < best_before:
            return
        later_digits = objective.best.digits


def run_coordinate_search(objective: BudgetedObjective, options: StrategyOptions) -> None:
    """Coordinate descent: optimize one choice after the other with the others fixed, until a round changes none.

    It starts from the best uniform configurations, then from random ones, `options.restarts` times in all.
    """
    space = objective.space
    uniform = np.array(list(space.choice_digits_by_uniform_configuration().values()), np.uint8).reshape(
        -1, len(space.num_options_per_choice)
    )
    order = np.argsort(objective.mean_losses(uniform), kind="stable") if len(uniform) else np.array([], np.int64)
    starts = [tuple(int(digit) for digit in uniform[position]) for position in order[: options.restarts]]
    rng = np.random.default_rng(options.seed)
    while len(starts) < options.restarts:
        starts.append(tuple(int(rng.integers(radix)) for radix in space.num_options_per_choice))
    for start in starts:
        _descend_from_configuration(objective, start)


def _descend_from_configuration(objective: BudgetedObjective, start: tuple[int, ...]) -> None:
    present, unchanged, index = list(start), 0, 0
    choices = len(present)
    while unchanged < choices:
        radix = objective.space.num_options_per_choice[index]
        candidates = np.array([present] * radix, np.uint8)
        candidates[:, index] = np.arange(radix)
        best = int(np.argmin(objective.mean_losses(candidates)))
        unchanged = unchanged + 1 if best == present[index] else 1
        present[index] = best
        index = (index + 1) % choices


def run_random_search(objective: BudgetedObjective, options: StrategyOptions) -> None:
    """Random search: configurations drawn uniformly."""
    rng = np.random.default_rng(options.seed)
    size, drawn = objective.space.num_configurations, 0
    while drawn < 20 * size:
        drawn += _RANDOM_BATCH
        objective.mean_losses(objective.draw_configurations(rng, _RANDOM_BATCH))


def _run_tpe_search(objective: BudgetedObjective, options: StrategyOptions) -> None:
    from bln_search.search.layers.tpe import run_tpe_search  # noqa: PLC0415 - Optuna is in the extra `search`

    run_tpe_search(objective, options.seed)


_SEARCHES: Mapping[LayerSearchAlgorithm, Callable[[BudgetedObjective, StrategyOptions], None]] = {
    LayerSearchAlgorithm.BEAM: run_beam_search,
    LayerSearchAlgorithm.COORDINATE: run_coordinate_search,
    LayerSearchAlgorithm.TPE: _run_tpe_search,
    LayerSearchAlgorithm.RACING: lambda objective, options: search_by_repeated_races(objective, options.seed),
    LayerSearchAlgorithm.RANDOM: run_random_search,
}
