"""Evaluation of rows with moving statistics (source E): plain passes, each of which continues the one before.

A fused pass of many rows has no state, so these rows are evaluated beside it: one pass for each row and mini-batch, in
the order of the mini-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from bln_search.evaluation.batches import BatchGroup, MiniBatch
from bln_search.evaluation.checks.ill_conditioned_rows import IllConditionedRowDetector
from bln_search.evaluation.checks.reproducible_passes import require_reproducible_pass
from bln_search.evaluation.row_evaluator import OutputObserver, RowEvaluator
from bln_search.evaluation.scoring import require_same_weights
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.tasks.score import Score, Scores


class MovingRows:
    """The rows with moving statistics, each with its stream, which continues over all calls.

    Rows whose losses are rounding errors in single precision are evaluated in double precision, as other rows are.

    Args:
        network: in evaluation mode.
        rows: the rows, all with moving statistics.
        populations: population values of each layer under each estimate.
        score: per-example losses and correctness from outputs and targets.
    """

    def __init__(
        self, network: nn.Module, rows: Sequence[InferenceRow], populations: Populations, score: Score
    ) -> None:
        self._evaluator = RowEvaluator(network, rows, populations, score=score, is_fused=False)
        self._conditioning: IllConditionedRowDetector | None = None

    def iter_scores(
        self, batches: Iterable[MiniBatch], rows: Sequence[InferenceRow], observe: OutputObserver | None
    ) -> Iterator[Scores]:
        """Yield losses and correctness (rows, n) of each mini-batch.

        Args:
            batches: mini-batches, which continue those of earlier calls.
            rows: those of the rows that are evaluated; the others' streams end.
            observe: called with the outputs of each row.
        """
        indices = [self._evaluator.rows.index(row) for row in rows]
        for inputs, targets in batches:
            group = BatchGroup(inputs, targets, groups=1, size=len(targets))
            outputs = dict(
                zip(indices, (of_row for (of_row,) in self._evaluator.iter_outputs(group, indices)), strict=True)
            )
            scores = self._score(outputs, targets)
            if self._conditioning is None:
                self._conditioning = self._find_ill_conditioned_rows(group, scores.losses)
            precise = self._conditioning.compute_outputs_of_ill_conditioned_rows(group)
            outputs |= {index: of_row for index, of_row in precise.items() if index in outputs}
            if observe is not None:
                for index, row in zip(indices, rows, strict=True):
                    observe(row, outputs[index], targets)
            yield self._score(outputs, targets) if precise else scores

    def _score(self, outputs: dict[int, Tensor], targets: Tensor) -> Scores:
        return self._evaluator.score_output_chunks((of_row[None] for of_row in outputs.values()), targets)

    def _find_ill_conditioned_rows(self, group: BatchGroup, losses: Tensor) -> IllConditionedRowDetector:
        """Compare the first mini-batch, in all rows, with double precision."""
        batch = group.first_mini_batch
        require_reproducible_pass(self._evaluator, batch, losses[0])
        double = self._evaluator.try_copy_in_double_precision(batch[0])
        conditioning = IllConditionedRowDetector(self._evaluator, double, batch[0])
        conditioning.mark_ill_conditioned_rows_and_warn(conditioning.find_rows_unlike_double(losses, batch))
        return conditioning


def join_scores_of_rows(scores: Iterable[Scores], of_moving_rows: Iterator[Scores] | None) -> Iterator[Scores]:
    """Yield losses and correctness (rows, examples) of groups of mini-batches, those of moving rows behind the others.

    Args:
        scores: of groups of mini-batches.
        of_moving_rows: of the same mini-batches, one by one; None without moving rows.

    Raises:
        ModelError: the weights of the examples differ.
    """
    for group in scores:
        if of_moving_rows is None:
            yield group
            continue
        parts: list[Scores] = []
        while sum(part.losses.shape[1] for part in parts) < group.losses.shape[1]:
            parts.append(next(of_moving_rows))
        weights = [part.weights for part in parts if part.weights is not None]
        require_same_weights(group.weights, torch.cat(weights) if weights else None)
        losses, correct = (torch.cat([getattr(part, name) for part in parts], 1) for name in ("losses", "correct"))
        yield Scores(torch.cat([group.losses, losses]), torch.cat([group.correct, correct]), group.weights)
