"""Who counts: a search asks it for losses, it keeps what was asked, the best so far, and how much is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.evaluation.tree.trie import Digits
from bln_search.search.layers.loss_source import Figures, Floats


class BudgetSpentError(Exception):
    """All evaluations are used up; the search ends."""


@dataclass(frozen=True)
class Step:
    """The best mean loss after so many evaluations."""

    evaluations: float
    loss: float
    digits: tuple[int, ...]


class Judge:
    """Mean losses over some mini-batches, at most `budget` configurations' worth of them.

    A configuration that was asked for before costs nothing. Mini-batches count for what they hold: half of them cost
    half an evaluation.
    """

    def __init__(self, figures: Figures, batches: Sequence[int], budget: float) -> None:
        self.figures, self.batches, self.budget = figures, list(batches), budget
        self.spent = 0.0
        self.steps: list[Step] = []
        self._asked: dict[bytes, float] = {}
        self._parts: set[tuple[bytes, int]] = set()
        self._examples = int(figures.examples[self.batches].sum())

    @property
    def space(self) -> ConfigurationSpace:
        """What can be chosen."""
        return self.figures.space

    @property
    def best(self) -> Step:
        """The best so far."""
        return self.steps[-1]

    @property
    def left(self) -> float:
        """Evaluations that may still be spent."""
        return self.budget - self.spent

    def losses(self, digits: Digits | Sequence[Sequence[int]]) -> Floats:
        """Mean losses, (configurations,). Raises BudgetSpentError behind the last one that may be asked."""
        asked = np.asarray(digits, np.uint8)
        new = list(dict.fromkeys(key for key in (row.tobytes() for row in asked) if key not in self._asked))
        affordable = new[: max(0, int(self.left + 1e-9))]
        if affordable:
            rows = np.stack([np.frombuffer(key, np.uint8) for key in affordable])
            sums = self.figures.losses(rows, self.batches).sum(1) / self._examples
            self.spent += len(affordable)
            for key, row, loss in zip(affordable, rows, sums, strict=True):
                self._take(key, row, float(loss))
        if len(affordable) < len(new):
            raise BudgetSpentError
        return np.array([self._asked[row.tobytes()] for row in asked])

    def parts(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses in some of the mini-batches, (configurations, mini-batches), for what they cost.

        Raises BudgetSpentError where that is more than is left; nothing is evaluated then.
        """
        new = {
            (row.tobytes(), batch)
            for row in digits
            for batch in batches
            if row.tobytes() not in self._asked and (row.tobytes(), batch) not in self._parts
        }
        cost = sum(int(self.figures.examples[batch]) for _, batch in new) / self._examples
        if cost > self.left + 1e-9:
            raise BudgetSpentError
        found = self.figures.losses(digits, batches)
        self.spent += cost
        self._parts |= new
        return found

    def settle(self, digits: Digits) -> None:
        """Take in configurations of which all mini-batches were asked for in parts; they cost nothing more."""
        sums = self.figures.losses(digits, self.batches).sum(1) / self._examples
        for row, loss in zip(digits, sums, strict=True):
            if row.tobytes() not in self._asked:
                self._take(row.tobytes(), row, float(loss))

    def _take(self, key: bytes, row: Digits, loss: float) -> None:
        self._asked[key] = loss
        if not self.steps or loss < self.best.loss:
            self.steps.append(Step(self.spent, loss, tuple(int(digit) for digit in row)))
