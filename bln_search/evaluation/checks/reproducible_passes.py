"""Check that the pass of a mini-batch can be repeated, so that rows can be isolated from one another."""

from __future__ import annotations

from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.ill_conditioned_rows import ROUNDING_TOLERANCE
from bln_search.evaluation.checks.numerical_comparison import loss_distance_in_tolerances
from bln_search.evaluation.row_evaluator import RowEvaluator


def require_reproducible_pass(evaluator: RowEvaluator, batch: MiniBatch, losses: Tensor) -> None:
    """Raise ModelError where the first pass of the first row cannot be repeated, so that rows cannot be isolated.

    Args:
        evaluator: of the network.
        batch: the first mini-batch.
        losses: (n,), of the first row.
    """
    repeated = evaluator.plain_scores(0, batch).losses
    if loss_distance_in_tolerances(repeated, losses, ROUNDING_TOLERANCE) > 1:
        raise ModelError(
            "the network gives other outputs for the same mini-batch when its pass is repeated, although its buffers, "
            "its attributes and the global random generators were reset, so its rows cannot be compared: keep what "
            "changes from pass to pass in attributes of its modules, not in a global variable, a function or a file"
        )
