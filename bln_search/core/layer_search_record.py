"""What a search of one network's per-layer configurations hands over: plain records and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.core.records import Outcomes

Figures = tuple[float, float]
"""Mean loss (nats) and accuracy (fraction)."""


@dataclass(frozen=True)
class LayerSums:
    """Sums of losses and of right answers over the examples of each fold, (folds, configurations).

    digits: the configurations, (configurations, choices); None where they are all of the space, in the order of their
    indices. examples: of each fold.
    """

    digits: NDArray[np.uint8] | None
    losses: NDArray[np.float64]
    correct: NDArray[np.int64]
    examples: NDArray[np.int64]

    @property
    def mean_loss(self) -> NDArray[np.float64]:
        """Over all folds, infinite where it is not a number."""
        means: NDArray[np.float64] = self.losses.sum(0) / self.examples.sum()
        return np.where(np.isnan(means), np.inf, means)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Over all folds."""
        shares: NDArray[np.float64] = self.correct.sum(0) / self.examples.sum()
        return shares

    def without(self, fold: int) -> NDArray[np.float64]:
        """Mean losses over the other folds, infinite where they are not a number."""
        others = [place for place in range(len(self.examples)) if place != fold]
        means = self.losses[others].sum(0) / self.examples[others].sum()
        return np.where(np.isnan(means), np.inf, means)


@dataclass(frozen=True)
class LayerSearchRecord:
    """A searched network.

    left_out: options without a value, by choice, with their reasons. evaluations: configurations' worth of examples
    that were evaluated. best, uniform: chosen on all examples. chosen, chosen_uniform: for each fold, on the others.
    apparent: loss of the choice on the examples that chose it, of the best uniform one likewise, means over folds.
    confirmed, confirmed_uniform: each example under what was chosen without its fold, in the order of the split.
    effects: loss with a switch at T less that at F, by choice and statistic; marginal: over all configurations, not
    around the best. kept, outcomes: the best configurations with each example's outcome. test: best and uniform there.
    """

    space: ConfigurationSpace
    left_out: Mapping[str, Mapping[str, str]]
    evaluations: float
    best: tuple[int, ...]
    uniform: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]
    chosen_uniform: tuple[tuple[int, ...], ...]
    apparent: float
    apparent_uniform: float
    confirmed: Outcomes
    confirmed_uniform: Outcomes
    effects: Mapping[tuple[str, str], float]
    marginal: bool
    sums: LayerSums
    kept: NDArray[np.uint8]
    outcomes: tuple[Outcomes, ...] = field(repr=False)
    test: tuple[Figures, Figures] | None = None
