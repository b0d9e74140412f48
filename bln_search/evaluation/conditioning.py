"""Rows whose losses single precision cannot give: they are evaluated in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bln_search.evaluation.agreement import losses_apart
from bln_search.evaluation.batches import Group, MiniBatch
from bln_search.evaluation.row_evaluator import RowEvaluator, Scores, doubled

ALLOWED = 1e-4
"""Difference of losses by rounding, of 1 + |loss|, beyond which a row is ill-conditioned.

Tables show four decimals; networks whose rounding stays small differ by about 1e-6.
"""


class Conditioning:
    """Which rows are ill-conditioned, and their losses in double precision.

    A row may enlarge rounding errors without bound: where a mini-batch has next to no deviation, or in deep networks
    whose mean is the population's and whose deviation is the mini-batch's.
    epsilon: of the precision in which the network computes. rows: those found so far.
    """

    def __init__(self, evaluator: RowEvaluator, double: RowEvaluator | None, inputs: Tensor) -> None:
        self.evaluator = evaluator
        self.epsilon = _working_epsilon(evaluator, inputs)
        exact = double is not None and self.epsilon <= torch.finfo(torch.float32).eps
        self.double = double if exact and not _computes_in_less(evaluator, inputs) else None
        self.rows: set[int] = set()

    def compare(self, losses: Tensor, batch: MiniBatch) -> dict[int, str]:
        """Rows whose losses (rows, n) on a mini-batch differ from double precision, with what is said of them."""
        if self.double is None:
            return {}
        inputs, targets = batch
        return self._different(losses, self.double.scores(Group(doubled(inputs), targets, 1, len(inputs)))[0])

    def compare_plain(self, losses: Tensor, batch: MiniBatch) -> dict[int, str]:
        """The same by plain passes."""
        if self.double is None:
            return {}
        again, _ = self.evaluator.plain_scores(0, batch)
        if losses_apart(again, losses[0], ALLOWED**2) > 1:  # it draws numbers or counts its calls
            self.double = None
            return {}
        precise = doubled(batch[0]), batch[1]
        exact = [self.double.plain_scores(row, precise)[0] for row in range(len(losses))]
        return self._different(losses, torch.stack(exact))

    def add(self, rows: Mapping[int, str]) -> None:
        """Rows whose difference is rounding, each with what is said of it. Warns (UserWarning) of new ones."""
        said = [words for row, words in rows.items() if row not in self.rows]
        self.rows.update(rows)
        if said:
            warnings.warn(
                "ill-conditioned: in the precision of this network the losses of "
                f"{', '.join(said)} are rounding errors; {self._remedy}",
                stacklevel=2,
            )

    @property
    def _remedy(self) -> str:
        if self.double is not None:
            return "they are evaluated in double precision"
        if self.epsilon <= torch.finfo(torch.float64).eps:
            return "there is no higher precision: use other configurations, or larger mini-batches"
        return "have them evaluated in double precision"

    def corrected(self, group: Group, losses: Tensor, correct: Tensor) -> Scores:
        """Losses and correctness (rows, n) of a group, those of ill-conditioned rows from double precision."""
        rows = sorted(self.rows)
        if rows and self.double is not None:
            precise = Group(doubled(group.inputs), group.targets, group.groups, group.size)
            exact = self.double.scores(precise, rows)
            losses[rows], correct[rows] = exact[0].to(losses.dtype), exact[1]
        return losses, correct

    def corrected_plain(self, batch: MiniBatch, losses: Tensor, correct: Tensor) -> Scores:
        """The same by plain passes of a mini-batch."""
        if self.double is not None:
            for row in self.rows:
                exact = self.double.plain_scores(row, (doubled(batch[0]), batch[1]))
                losses[row], correct[row] = exact[0].to(losses.dtype), exact[1]
        return losses, correct

    def _different(self, losses: Tensor, exact: Tensor) -> dict[int, str]:
        said = {}
        for row, both in enumerate(zip(losses.double(), exact.double(), strict=True)):
            known = both[0].isfinite() & both[1].isfinite()
            single, double = (values[known] for values in both)
            if len(single) and (single - double).abs().mean() > ALLOWED * (1 + double.abs().mean()):
                said[row] = f"{self.evaluator.rows[row].label} ({single.mean():.5g} for {double.mean():.5g})"
        return said


class _LowestPrecision(TorchDispatchMode):
    """Sees whether an operation answers in half precision, as under an autocast of the network's own."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.half = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at what it answers."""
        answer = func(*args, **(kwargs or {}))
        self.half = self.half or getattr(answer, "dtype", None) in (torch.float16, torch.bfloat16)
        return answer


def _computes_in_less(evaluator: RowEvaluator, inputs: Tensor) -> bool:
    """Does a network of single precision compute in half precision inside?"""
    seen = _LowestPrecision()
    with seen:
        evaluator.plain_outputs(0, inputs[:2])
    return seen.half


def _working_epsilon(evaluator: RowEvaluator, inputs: Tensor) -> float:
    kind = inputs.device.type
    dtype = next(evaluator.network.parameters()).dtype
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    return torch.finfo(dtype).eps
