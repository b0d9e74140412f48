"""Comparison of drawn rows and mini-batches with plain forward passes during the one pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.data.inputs import convert_to_double
from bln_search.evaluation.batches import BatchGroup, MiniBatch
from bln_search.evaluation.checks.ill_conditioned_rows import ROUNDING_TOLERANCE
from bln_search.evaluation.checks.independence import BatchPair, describe_fused_pass_difference
from bln_search.evaluation.checks.numerical_comparison import is_rounding_error, loss_distance_in_tolerances
from bln_search.evaluation.row_evaluator import RowEvaluator

_FIRST = 8
"""Number of initial mini-batches that are all checked, each in one row."""

_EVERY = 60
"""Afterwards one of this many mini-batches is checked."""

_DOUBLE_TOLERANCE = 2.0**-10
"""Allowed difference of losses in double precision: about 1e-3 of 1 + |loss|."""


class SpotChecks:
    """Compares fused with plain losses, the rows in turn in a random order.

    Args:
        evaluator: of the network.
        double: of a copy in double precision; None where there is none.
        epsilon: machine epsilon of the precision in which the network computes.
    """

    def __init__(self, evaluator: RowEvaluator, double: RowEvaluator | None, epsilon: float) -> None:
        self.evaluator, self.double, self.epsilon = evaluator, double, epsilon
        self._generator = np.random.default_rng(0)
        self._order = self._generator.permutation(len(evaluator.rows))
        self._seen = self._checked = 0

    def check_group_and_find_rounding_errors(self, group: BatchGroup, losses: Tensor) -> dict[int, str]:
        """Check a group with losses (rows, examples); return the rows with rounding errors, with their labels.

        Raises:
            ModelError: fused and plain losses differ for another reason.
        """
        rounded: dict[int, str] = {}
        for index in self._sampled_batch_indices(group):
            row = int(self._order[self._checked % len(self._order)])
            self._checked += 1
            if not self.check_and_match_plain_pass(group, losses, index, row):
                rounded[row] = self.evaluator.rows[row].label
        return rounded

    def check_and_match_plain_pass(self, group: BatchGroup, losses: Tensor, index: int, row: int) -> bool:
        """Return whether the losses of a mini-batch equal those of a plain pass; False for rounding errors.

        Args:
            group: the mini-batches.
            losses: (rows, examples) by the fused pass.
            index: of the mini-batch in the group.
            row: index of the row.

        Raises:
            ModelError: they differ for another reason than rounding.
        """
        start, end = index * group.size, (index + 1) * group.size
        batch = group.inputs[start:end], group.targets[start:end]
        fused = losses[row, start : start + len(batch[1])]
        plain = self.evaluator.plain_scores(row, batch).losses
        if loss_distance_in_tolerances(fused, plain, self.epsilon**0.5) <= 1:
            return True
        self._check_rounding_explains_difference(group, index, batch, row, fused, plain)
        return loss_distance_in_tolerances(fused, plain, ROUNDING_TOLERANCE) <= 1

    def _sampled_batch_indices(self, group: BatchGroup) -> Iterator[int]:
        for index in range(group.groups):
            self._seen += 1
            if self._seen <= _FIRST or self._generator.integers(_EVERY) == 0:
                yield index

    def _check_rounding_explains_difference(
        self, group: BatchGroup, index: int, batch: MiniBatch, row: int, fused: Tensor, plain: Tensor
    ) -> None:
        evaluator, epsilon = self.evaluator, self.epsilon
        if self.double is not None:
            start = index * group.size
            evaluator, epsilon = self.double, torch.finfo(torch.float64).eps
            fused = evaluator.fused_scores(group)[0][row, start : start + len(batch[1])]
            batch = convert_to_double(batch[0]), batch[1]  # rounding errors of double precision are those of its inputs
            plain = evaluator.plain_scores(row, batch).losses
            if loss_distance_in_tolerances(fused, plain, _DOUBLE_TOLERANCE) <= 1:
                return
        if not is_rounding_error(loss_distance_in_tolerances(fused, plain, epsilon**0.5), evaluator, row, [batch[0]]):
            difference = float((fused.double() - plain.double()).abs().max())
            raise ModelError(
                describe_fused_pass_difference(evaluator, BatchPair.from_mini_batches(batch, None), row, difference)
            )
