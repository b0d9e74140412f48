"""The objective of a search: mean losses within a budget of evaluations, and the best configuration so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.evaluation.tree.trie import Digits
from bln_search.search.layers.loss_source import Floats, LossSource


class BudgetSpentError(Exception):
    """All evaluations are spent; the search ends."""


@dataclass(frozen=True)
class BestSoFar:
    """A new best configuration: its mean loss, and the evaluations spent until then."""

    evaluations: float
    loss: float
    digits: tuple[int, ...]


class BudgetedObjective:
    """Mean losses over some mini-batches, for at most `budget` evaluations.

    One evaluation is one configuration on all of these mini-batches; a part of them costs the same part of an
    evaluation, by number of examples. A configuration that was evaluated before costs nothing.

    Args:
        source: Provides the losses.
        batches: Indices of the mini-batches.
        budget: Number of evaluations.
    """

    def __init__(self, source: LossSource, batches: Sequence[int], budget: float) -> None:
        self.source, self.batches, self.budget = source, list(batches), budget
        self.spent = 0.0
        self.improvements: list[BestSoFar] = []
        self._losses: dict[bytes, float] = {}
        self._evaluated_parts: set[tuple[bytes, int]] = set()
        self._examples = int(source.examples[self.batches].sum())

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations."""
        return self.source.space

    @property
    def best(self) -> BestSoFar:
        """The best configuration so far."""
        return self.improvements[-1]

    @property
    def remaining_evaluations(self) -> float:
        """Evaluations that are not spent yet."""
        return self.budget - self.spent

    def draw_configurations(self, rng: np.random.Generator, count: int) -> Digits:
        """Draw configurations uniformly, (count, choices)."""
        return np.stack(
            [rng.integers(radix, size=count) for radix in self.space.num_options_per_choice], axis=1
        ).astype(np.uint8)

    def mean_losses(self, digits: Digits | Sequence[Sequence[int]]) -> Floats:
        """Mean losses, (configurations,).

        Raises BudgetSpentError if the budget does not cover all of them; those that it covers are evaluated.
        """
        rows = np.asarray(digits, np.uint8)
        new = list(dict.fromkeys(key for key in (row.tobytes() for row in rows) if key not in self._losses))
        affordable = new[: max(0, int(self.remaining_evaluations + 1e-9))]
        if affordable:
            new_rows = np.stack([np.frombuffer(key, np.uint8) for key in affordable])
            means = self.source.sum_losses(new_rows, self.batches).sum(1) / self._examples
            self.spent += len(affordable)
            for key, row, loss in zip(affordable, new_rows, means, strict=True):
                self._record_loss_and_best(key, row, float(loss))
        if len(affordable) < len(new):
            raise BudgetSpentError
        return np.array([self._losses[row.tobytes()] for row in rows])

    def sum_losses_by_mini_batch(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses in some of the mini-batches, (configurations, mini-batches).

        Raises BudgetSpentError if the budget does not cover all of them; nothing is evaluated then.
        """
        new = {
            (row.tobytes(), batch)
            for row in digits
            for batch in batches
            if row.tobytes() not in self._losses and (row.tobytes(), batch) not in self._evaluated_parts
        }
        cost = sum(int(self.source.examples[batch]) for _, batch in new) / self._examples
        if cost > self.remaining_evaluations + 1e-9:
            raise BudgetSpentError
        sums = self.source.sum_losses(digits, batches)
        self.spent += cost
        self._evaluated_parts |= new
        return sums

    def record_paid_mean_losses(self, digits: Digits) -> None:
        """Record the mean losses of configurations whose partial losses in all mini-batches were paid for."""
        means = self.source.sum_losses(digits, self.batches).sum(1) / self._examples
        for row, loss in zip(digits, means, strict=True):
            if row.tobytes() not in self._losses:
                self._record_loss_and_best(row.tobytes(), row, float(loss))

    def _record_loss_and_best(self, key: bytes, row: Digits, loss: float) -> None:
        self._losses[key] = loss
        if not self.improvements or loss < self.best.loss:
            self.improvements.append(BestSoFar(self.spent, loss, tuple(int(digit) for digit in row)))
