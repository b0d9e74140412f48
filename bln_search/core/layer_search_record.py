"""The result of a search of one network's per-layer configurations: records and arrays.

Losses are those of the task. For a task without accuracy no answer is correct, and accuracies are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.per_layer import ConfigurationSpace

Figures = tuple[float, float]
"""Mean loss and accuracy (fraction)."""


@dataclass(frozen=True)
class FoldScoreSums:
    """Sums over the examples of each fold.

    Attributes:
        digits: The configurations, (configurations, choices); None for all of the space in the order of the indices.
        losses: Sums of losses, (folds, configurations).
        correct: Numbers of correct answers, (folds, configurations).
        examples: Number of examples, (folds,).
        counted: Number of examples of all folds that count; None for all of them. Losses of weighted examples are
            scaled so that their mean over all examples is the weighted mean.
    """

    digits: NDArray[np.uint8] | None
    losses: NDArray[np.float64]
    correct: NDArray[np.int64]
    examples: NDArray[np.int64]
    counted: int | None = None

    @property
    def mean_loss_per_configuration(self) -> NDArray[np.float64]:
        """Mean loss over all folds, infinite if it is not a number, (configurations,)."""
        means: NDArray[np.float64] = self.losses.sum(0) / self.examples.sum()
        return np.where(np.isnan(means), np.inf, means)

    @property
    def accuracy_per_configuration(self) -> NDArray[np.float64]:
        """Accuracy (fraction) over all folds, (configurations,)."""
        counted = self.examples.sum() if self.counted is None else self.counted
        accuracy: NDArray[np.float64] = self.correct.sum(0) / counted
        return accuracy

    def mean_loss_per_configuration_without_fold(self, fold: int) -> NDArray[np.float64]:
        """Mean losses over the other folds, infinite if they are not a number, (configurations,)."""
        others = [other for other in range(len(self.examples)) if other != fold]
        means = self.losses[others].sum(0) / self.examples[others].sum()
        return np.where(np.isnan(means), np.inf, means)


@dataclass(frozen=True)
class LayerSearchRecord:
    """The result of a search of one network.

    Attributes:
        space: The configurations.
        excluded: Undefined options by choice, with their reasons.
        evaluations: Evaluated examples in units of one configuration on all examples.
        best: The best configuration on all examples.
        uniform: The best uniform configuration on all examples.
        chosen: For each fold, the best configuration on the other folds.
        chosen_uniform: For each fold, the best uniform configuration on the other folds.
        apparent: Loss of `chosen` on the folds that chose it, mean over folds.
        apparent_uniform: The same for `chosen_uniform`.
        confirmed: Every example under the configuration that was chosen without its fold, in the order of the split.
        confirmed_uniform: The same for `chosen_uniform`.
        effects: Loss with a switch at T minus loss with it at F, by choice and statistic.
        marginal: The effects are averaged over all configurations instead of local to `best`.
        sums: Sums of every evaluated configuration.
        kept: The best configurations, best first, (configurations, choices).
        outcomes: Per-example outcomes of `kept`.
        test: Figures of `best` and `uniform` on the test split.
    """

    space: ConfigurationSpace
    excluded: Mapping[str, Mapping[str, str]]
    evaluations: float
    best: tuple[int, ...]
    uniform: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]
    chosen_uniform: tuple[tuple[int, ...], ...]
    apparent: float
    apparent_uniform: float
    confirmed: ExampleOutcomes
    confirmed_uniform: ExampleOutcomes
    effects: Mapping[tuple[str, str], float]
    marginal: bool
    sums: FoldScoreSums
    kept: NDArray[np.uint8]
    outcomes: tuple[ExampleOutcomes, ...] = field(repr=False)
    test: tuple[Figures, Figures] | None = None
