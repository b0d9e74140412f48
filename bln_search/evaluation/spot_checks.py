"""Rows and mini-batches drawn during the one pass and evaluated plainly as well."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.evaluation.agreement import is_rounding, losses_apart
from bln_search.evaluation.batches import Group, MiniBatch
from bln_search.evaluation.conditioning import ALLOWED
from bln_search.evaluation.independence import Pair, difference_message
from bln_search.evaluation.row_evaluator import RowEvaluator, doubled

_FIRST = 8
"""Mini-batches at the beginning that are all checked, each under one row."""

_EVERY = 60
"""One of so many mini-batches is checked from then on."""

_EQUAL_IN_DOUBLE = 2.0**-20
"""Stands for ε where losses of double precision are compared: 1e-3 of 1 + |loss|."""


class SpotChecks:
    """Compares fused with plain losses; the rows take turns in a drawn order.

    epsilon: of the precision in which the network computes. double: the same network in double precision, if any.
    """

    def __init__(self, evaluator: RowEvaluator, double: RowEvaluator | None, epsilon: float) -> None:
        self.evaluator, self.double, self.epsilon = evaluator, double, epsilon
        self._draw = np.random.default_rng(0)
        self._order = self._draw.permutation(len(evaluator.rows))
        self._seen = self._checked = 0

    def rounded_rows(self, group: Group, losses: Tensor) -> dict[int, str]:
        """Check a group with its losses (rows, examples); returns rows whose losses are rounding, with their names.

        Raises ModelError where fused and plain losses differ for another reason.
        """
        found: dict[int, str] = {}
        for place in self._drawn(group):
            row = int(self._order[self._checked % len(self._order)])
            self._checked += 1
            if not self.is_equal(group, losses, place, row):
                found[row] = self.evaluator.rows[row].label
        return found

    def is_equal(self, group: Group, losses: Tensor, place: int, row: int) -> bool:
        """Are the losses of one mini-batch of a group under a row those of a plain pass? False where rounding shows.

        Raises ModelError where they differ for another reason.
        """
        start, end = place * group.size, (place + 1) * group.size
        batch = group.inputs[start:end], group.targets[start:end]
        fused = losses[row, start : start + len(batch[1])]
        plain, _ = self.evaluator.plain_scores(row, batch)
        if losses_apart(fused, plain, self.epsilon) <= 1:
            return True
        self._check_rounding(group, place, batch, row, fused, plain)
        return losses_apart(fused, plain, ALLOWED**2) <= 1

    def _drawn(self, group: Group) -> Iterator[int]:
        for place in range(group.groups):
            self._seen += 1
            if self._seen <= _FIRST or self._draw.integers(_EVERY) == 0:
                yield place

    def _check_rounding(
        self, group: Group, place: int, batch: MiniBatch, row: int, fused: Tensor, plain: Tensor
    ) -> None:
        """Raise ModelError unless rounding explains the difference."""
        evaluator, epsilon = self.evaluator, self.epsilon
        if self.double is not None:
            precise = Group(doubled(group.inputs), group.targets, group.groups, group.size)
            start = place * group.size
            evaluator, epsilon = self.double, _EQUAL_IN_DOUBLE
            fused = evaluator.scores(precise)[0][row, start : start + len(batch[1])]
            batch = doubled(batch[0]), batch[1]
            plain, _ = evaluator.plain_scores(row, batch)
            if losses_apart(fused, plain, epsilon) <= 1:
                return
        apart = losses_apart(fused, plain, torch.finfo(torch.float64).eps if self.double else epsilon)
        if not is_rounding(apart, evaluator, row, [batch[0]]):
            difference = float((fused.double() - plain.double()).abs().max())
            raise ModelError(difference_message(evaluator, Pair.of(batch, None), row, difference))
