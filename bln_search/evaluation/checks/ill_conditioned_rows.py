"""Ill-conditioned rows, whose losses are rounding errors in single precision and are computed in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bln_search.data.inputs import Inputs, first_examples_if_sliceable
from bln_search.evaluation.batches import BatchGroup, MiniBatch
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.evaluation.split_outcomes import EarlierParts

ROUNDING_TOLERANCE = 1e-4
"""Rounding error of losses, relative to 1 + |loss|, above which a row is ill-conditioned.

Tables show four decimals; in well-conditioned networks the error is about 1e-6.
"""


class IllConditionedRowDetector:
    """Finds ill-conditioned rows and computes their losses in double precision.

    A row may amplify rounding errors without bound: where a mini-batch has almost no deviation, or in deep networks
    with population means and mini-batch deviations.

    Args:
        evaluator: of the network.
        double: of a copy in double precision; None where there is none.
        inputs: of one mini-batch.

    Attributes:
        epsilon: machine epsilon of the precision in which the network computes.
        rows: the ill-conditioned rows found so far.
    """

    def __init__(self, evaluator: RowEvaluator, double: RowEvaluator | None, inputs: Inputs) -> None:
        self.evaluator = evaluator
        self.epsilon = _working_epsilon(evaluator, inputs)
        is_single = double is not None and self.epsilon <= torch.finfo(torch.float32).eps
        self.double = double if is_single and not _uses_half_precision(evaluator, inputs) else None
        self.rows: set[int] = set()

    def take_rows_of_earlier_parts(self, earlier: EarlierParts | None) -> bool:
        """Take the rows that were found in earlier parts of the split; return whether there are earlier parts."""
        if earlier is None or earlier.ill_conditioned is None:
            return False
        self.rows.update(index for index, row in enumerate(self.evaluator.rows) if row in earlier.ill_conditioned)
        return True

    def keep_rows_for_later_parts(self, earlier: EarlierParts | None) -> None:
        """Add the rows found so far to those of the parts of a split."""
        if earlier is not None:
            found = {self.evaluator.rows[row] for row in self.rows}
            earlier.ill_conditioned = (earlier.ill_conditioned or set()) | found

    def find_rows_unlike_double(self, losses: Tensor, batch: MiniBatch) -> dict[int, str]:
        """Return the rows whose losses differ from those in double precision, with descriptions.

        Args:
            losses: (rows, n or more), those of the mini-batch first.
            batch: a mini-batch.
        """
        is_fused, (inputs, targets) = self.evaluator.is_fused, batch
        if not is_fused and self.evaluator.passes.draws_numbers:  # others in double precision
            self.double = None
        if self.double is None:
            return {}
        if is_fused:
            exact = self.double.fused_scores(BatchGroup(inputs, targets, 1, len(inputs))).losses
        else:
            exact = torch.stack([self.double.plain_scores(row, batch).losses for row in range(len(losses))])
        return self._describe_different_rows(losses[:, : len(targets)], exact)

    def mark_ill_conditioned_rows_and_warn(self, rows: Mapping[int, str]) -> None:
        """Add ill-conditioned rows with their descriptions. Warns (UserWarning) of new ones."""
        new = [description for row, description in rows.items() if row not in self.rows]
        self.rows.update(rows)
        if new:
            warnings.warn(
                "ill-conditioned: in the precision of this network the losses of "
                f"{', '.join(new)} are rounding errors; {self._advice}",
                stacklevel=2,
            )

    @property
    def _advice(self) -> str:
        if self.double is not None:
            return "they are evaluated in double precision"
        if self.epsilon <= torch.finfo(torch.float64).eps:
            return "there is no higher precision: use other configurations, or larger mini-batches"
        return "evaluate them in double precision"

    def compute_outputs_of_ill_conditioned_rows(self, group: BatchGroup) -> dict[int, Tensor]:
        """Return outputs (n, ...) of each ill-conditioned row, of double precision in the working precision."""
        if self.double is None or not self.rows:
            return {}
        rows, dtype = sorted(self.rows), self.double.dtype
        outputs = [of_row for chunk in self.double.iter_outputs(group, rows) for of_row in chunk]
        return dict(zip(rows, (x.to(dtype) if x.is_floating_point() else x for x in outputs), strict=True))

    def _describe_different_rows(self, losses: Tensor, exact: Tensor) -> dict[int, str]:
        descriptions = {}
        for row, pair in enumerate(zip(losses.double(), exact.double(), strict=True)):
            is_finite = pair[0].isfinite() & pair[1].isfinite()
            single, double = (values[is_finite] for values in pair)
            if len(single) and (single - double).abs().mean() > ROUNDING_TOLERANCE * (1 + double.abs().mean()):
                label = self.evaluator.rows[row].label
                descriptions[row] = f"{label} ({single.mean():.5g} instead of {double.mean():.5g})"
        return descriptions


class _HalfPrecisionDetector(TorchDispatchMode):
    """Detects whether an operation returns half precision, as under an autocast inside the network."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.half = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.half = self.half or getattr(result, "dtype", None) in (torch.float16, torch.bfloat16)
        return result


def _uses_half_precision(evaluator: RowEvaluator, inputs: Inputs) -> bool:
    detector = _HalfPrecisionDetector()
    with detector:
        evaluator.plain_outputs(0, first_examples_if_sliceable(inputs, 2))
    return detector.half


def _working_epsilon(evaluator: RowEvaluator, inputs: Inputs) -> float:
    device_type = inputs.device.type
    dtype = next(evaluator.network.parameters()).dtype
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
    return torch.finfo(dtype).eps
