"""What is known of per-layer configurations: sums of losses in each mini-batch, from a network or from a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.evaluation.tree.evaluators import Evaluator
from bln_search.evaluation.tree.trie import Digits

Floats = NDArray[np.float64]


class Figures(Protocol):
    """Where losses come from. examples: of each mini-batch, (mini-batches,). What is no number is infinite."""

    space: ConfigurationSpace
    examples: NDArray[np.int64]

    def losses(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses, (configurations, mini-batches)."""
        ...


class NetworkFigures:
    """From a network; what was worked out once is remembered."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator, self.space = evaluator, evaluator.space
        self.examples = np.array(evaluator.sizes)
        self._known: dict[bytes, tuple[Floats, NDArray[np.int64]]] = {}

    def losses(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses, (configurations, mini-batches)."""
        self._work_out(digits, batches)
        return np.stack([self._known[row.tobytes()][0][list(batches)] for row in digits])

    def everything(self) -> tuple[Digits, Floats, NDArray[np.int64]]:
        """Every configuration that is known in all mini-batches, its sums of losses and of right answers in each."""
        whole = {key: sums for key, sums in self._known.items() if not np.isnan(sums[0]).any()}
        digits = np.stack([np.frombuffer(key, np.uint8) for key in whole])
        losses = np.stack([losses for losses, _ in whole.values()])
        return digits, losses, np.stack([correct for _, correct in whole.values()])

    @property
    def evaluations(self) -> float:
        """How many configurations' worth of examples were evaluated."""
        known = np.stack([~np.isnan(losses) for losses, _ in self._known.values()])
        return float((known * self.examples).sum() / self.examples.sum())

    def _work_out(self, digits: Digits, batches: Sequence[int]) -> None:
        """What is not known yet; configurations that lack the same mini-batches are walked together."""
        lacking: dict[tuple[int, ...], list[bytes]] = {}
        for row in digits:
            key = row.tobytes()
            if key not in self._known:
                self._known[key] = (np.full(len(self.examples), np.nan), np.zeros(len(self.examples), np.int64))
            missing = tuple(batch for batch in batches if np.isnan(self._known[key][0][batch]))
            if missing:
                lacking.setdefault(missing, []).append(key)
        for missing, keys in lacking.items():
            asked = np.stack([np.frombuffer(key, np.uint8) for key in dict.fromkeys(keys)])
            losses, correct = self.evaluator.sums(asked, missing)
            for key, loss, right in zip(dict.fromkeys(keys), losses, correct, strict=True):
                self._known[key][0][list(missing)] = np.where(np.isnan(loss), np.inf, loss)
                self._known[key][1][list(missing)] = right


class TableFigures:
    """From a table of every configuration of a space, (mini-batches, configurations): for studying searches."""

    def __init__(self, space: ConfigurationSpace, losses: Floats, examples: NDArray[np.int64]) -> None:
        self.space, self.examples = space, examples
        self._losses = np.where(np.isnan(losses), np.inf, losses)

    def losses(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses, (configurations, mini-batches)."""
        indices = [self.space.index([int(digit) for digit in row]) for row in digits]
        return self._losses[np.ix_(list(batches), indices)].T
