"""Sums of losses of per-layer configurations in each mini-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.evaluation.tree.per_layer_evaluator import PerLayerEvaluator
from bln_search.evaluation.tree.trie import Digits

Floats = NDArray[np.float64]


class LossSource(Protocol):
    """Provides losses; a loss that is not a number is infinite.

    Attributes:
        space: The configurations.
        examples: Examples of each mini-batch, (mini-batches,).
    """

    space: ConfigurationSpace
    examples: NDArray[np.int64]

    def sum_losses(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses of these configurations in these mini-batches, (configurations, mini-batches)."""
        ...


class CachedNetworkLossSource:
    """Evaluates a network and caches its sums of losses."""

    def __init__(self, evaluator: PerLayerEvaluator) -> None:
        self.evaluator, self.space = evaluator, evaluator.space
        self.examples = np.array(evaluator.example_counts_by_batch)
        self._cache: dict[bytes, tuple[Floats, NDArray[np.int64]]] = {}

    def sum_losses(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses, (configurations, mini-batches)."""
        self._evaluate_uncached(digits, batches)
        return np.stack([self._cache[row.tobytes()][0][list(batches)] for row in digits])

    def sums_of_complete_configurations(self) -> tuple[Digits, Floats, NDArray[np.int64]]:
        """The configurations that were evaluated in all mini-batches.

        Returns:
            digits (configurations, choices), sums of losses and numbers of correct answers, each (configurations,
            mini-batches).
        """
        complete = {key: sums for key, sums in self._cache.items() if not np.isnan(sums[0]).any()}
        digits = np.stack([np.frombuffer(key, np.uint8) for key in complete])
        losses = np.stack([losses for losses, _ in complete.values()])
        return digits, losses, np.stack([correct for _, correct in complete.values()])

    @property
    def cost_in_full_evaluations(self) -> float:
        """Evaluated examples in units of one configuration on all examples."""
        evaluated = np.stack([~np.isnan(losses) for losses, _ in self._cache.values()])
        return float((evaluated * self.examples).sum() / self.examples.sum())

    def _evaluate_uncached(self, digits: Digits, batches: Sequence[int]) -> None:
        """Evaluate what is not cached; configurations that lack the same mini-batches are evaluated together."""
        keys_by_missing: dict[tuple[int, ...], list[bytes]] = {}
        for row in digits:
            key = row.tobytes()
            if key not in self._cache:
                self._cache[key] = (np.full(len(self.examples), np.nan), np.zeros(len(self.examples), np.int64))
            missing = tuple(batch for batch in batches if np.isnan(self._cache[key][0][batch]))
            if missing:
                keys_by_missing.setdefault(missing, []).append(key)
        for missing, duplicated_keys in keys_by_missing.items():
            keys = list(dict.fromkeys(duplicated_keys))
            losses, correct = self.evaluator.score_sums_by_batch(
                np.stack([np.frombuffer(key, np.uint8) for key in keys]), missing
            )
            for key, loss_sums, correct_counts in zip(keys, losses, correct, strict=True):
                self._cache[key][0][list(missing)] = np.where(np.isnan(loss_sums), np.inf, loss_sums)
                self._cache[key][1][list(missing)] = correct_counts
