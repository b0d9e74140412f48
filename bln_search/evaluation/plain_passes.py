"""Losses of all rows by plain forward passes, row by row, for networks that the one pass does not support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.ill_conditioned_rows import ROUNDING_TOLERANCE, IllConditionedRowDetector
from bln_search.evaluation.checks.numerical_comparison import loss_distance_in_tolerances
from bln_search.evaluation.outcome_parts import EarlierParts
from bln_search.evaluation.row_evaluator import OutputObserver, RowEvaluator
from bln_search.evaluation.scoring import require_same_weights
from bln_search.tasks.score import Scores


def iter_plain_scores(
    evaluator: RowEvaluator,
    batches: Iterable[MiniBatch],
    observe: OutputObserver | None,
    earlier: EarlierParts | None = None,
) -> Iterator[Scores]:
    """Yield losses and correctness (rows, examples) of each mini-batch.

    Args:
        evaluator: of the network.
        batches: mini-batches; the first one decides which rows are ill-conditioned.
        observe: called with the outputs of each row.
        earlier: see `evaluate_rows_per_example`.
    """
    conditioning: IllConditionedRowDetector | None = None
    for batch in batches:
        inputs, targets = batch
        outputs = [
            evaluator.plain_outputs(row, inputs, is_continued=True)[: len(targets)]
            for row in range(len(evaluator.rows))
        ]
        scores = [evaluator.score_outputs(row_outputs, targets) for row_outputs in outputs]
        losses, correct = (
            torch.stack(values) for values in ([each.losses for each in scores], [each.correct for each in scores])
        )
        weights = scores[0].weights
        for row_scores in scores[1:]:
            require_same_weights(weights, row_scores.weights)
        if conditioning is None:
            _require_reproducible_pass(evaluator, batch, losses[0])
            conditioning = IllConditionedRowDetector(evaluator, evaluator.try_copy_in_double_precision(inputs), inputs)
            if not conditioning.take_rows_of_earlier_parts(earlier):
                conditioning.mark_ill_conditioned_rows_and_warn(
                    conditioning.find_rows_unlike_double_in_plain_passes(losses, batch)
                )
        for row, precise in conditioning.plain_outputs_of_ill_conditioned_rows(batch).items():
            outputs[row] = precise
            losses[row], correct[row], _ = evaluator.score_outputs(precise, targets)
        if observe is not None:
            for row, row_outputs in enumerate(outputs):
                observe(evaluator.rows[row], row_outputs, targets)
        yield Scores(losses, correct, weights)
    if conditioning is not None:
        conditioning.keep_rows_for_later_parts(earlier)


def _require_reproducible_pass(evaluator: RowEvaluator, batch: MiniBatch, losses: Tensor) -> None:
    """Raise ModelError where the first pass of the first row cannot be repeated, so that rows cannot be isolated."""
    repeated = evaluator.plain_scores(0, batch).losses
    if loss_distance_in_tolerances(repeated, losses, ROUNDING_TOLERANCE) > 1:
        raise ModelError(
            "the network gives other outputs for the same mini-batch when its pass is repeated, although its buffers, "
            "its attributes and the global random generators were reset, so its rows cannot be compared: keep what "
            "changes from pass to pass in attributes of its modules, not in a global variable, a function or a file"
        )
