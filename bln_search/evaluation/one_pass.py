"""Evaluation of all rows in one pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, tee

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.core.errors import DataError, ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.data.inputs import StructuredInputs
from bln_search.evaluation.batches import BatchGroup, MiniBatch, group_adjacent_batches
from bln_search.evaluation.checks.checked_networks import are_fused_passes_checked, remember_checked_fused_passes
from bln_search.evaluation.checks.ill_conditioned_rows import IllConditionedRowDetector
from bln_search.evaluation.checks.independence import BatchPair, check_fused_passes, check_one_pass_inputs
from bln_search.evaluation.checks.reproducible_passes import require_reproducible_pass
from bln_search.evaluation.checks.spot_checks import SpotChecks
from bln_search.evaluation.chunking import MEMORY_LIMIT, choose_chunk_sizes, retain_freed_memory
from bln_search.evaluation.moving_rows import MovingRows, join_scores_of_rows
from bln_search.evaluation.row_evaluator import OutputObserver, RowEvaluator
from bln_search.evaluation.split_outcomes import (
    ContrastiveSplitScorer,
    EarlierParts,
    join_weights,
    without_equal_weights,
)
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name
from bln_search.norms.precision import use_full_float32_precision
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import ContrastiveScore, Score, Scores

_CHECKED_EXAMPLES = 8
"""Number of examples of each of two mini-batches that are compared with plain passes before the pass."""

Progress = Callable[[int], None]
"""Called with the number of examples just finished."""


@torch.no_grad()
def evaluate_rows_per_example(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    score: Score = cross_entropy_and_correctness,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
    observe: OutputObserver | None = None,
    earlier: EarlierParts | None = None,
) -> list[ExampleOutcomes]:
    """Return per-example losses and correctness of `network` in each of `rows`, in the order of the examples.

    Layers other than the normalization layers must treat examples independently: two mini-batches are compared with
    plain forward passes before the pass, and a sample of mini-batches and rows during it. Rows whose losses are
    rounding errors in single precision are evaluated in double precision, with a warning (UserWarning).

    Rows with moving statistics (source E) take a plain forward pass for each mini-batch, beside the pass of the others.
    They begin a stream at the first mini-batch.

    Args:
        network: with normalization layers.
        batches: mini-batches, in the order of a stream.
        rows: the rows.
        populations: population values of each layer under each estimate.
        score: per-example losses and correctness from outputs and targets; a `ContrastiveScore` compares each example
            with all others, for which the outputs of all rows are kept.
        one_pass: False to evaluate row by row, for networks that the one pass does not support.
        memory_limit: bytes of the largest activation of all rows together.
        progress: called with the number of examples of each finished group.
        observe: called with the outputs of each row. The outputs of all rows for a group are computed twice if they
            take more than `memory_limit` bytes.
        earlier: what earlier parts have shown, where the mini-batches are a part of a split; it is updated. Rows are
            compared with double precision in the first part, streams continue those of the part before, and outcomes
            keep equal weights, for `join_outcomes`.

    Raises:
        ModelError: fused and plain passes differ, or the network does not support the one pass.
        DataError: there is no mini-batch.
    """
    get_norms_by_name(network)
    if not rows:
        return []
    with use_full_float32_precision(), evaluation_mode(network):
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            raise DataError("there is nothing to evaluate: the data has no mini-batch")
        comparison = ContrastiveSplitScorer(score, observe) if isinstance(score, ContrastiveScore) else None
        observer = observe if comparison is None else comparison.add_outputs
        moving = [row for row in rows if row.configuration.is_moving]
        others = [row for row in rows if not row.configuration.is_moving]
        parts = EarlierParts() if earlier is None else earlier
        if moving and parts.moving_rows is None:
            parts.moving_rows = MovingRows(network, moving, populations, score)
        iterator = chain([first], iterator)
        scores: Iterator[Scores] | None = None
        if moving and parts.moving_rows is not None:
            iterator, same = tee(iterator) if others else (iterator, iterator)
            scores = parts.moving_rows.iter_scores(same, moving, observer)
        if others:
            evaluator = RowEvaluator(network, others, populations, score=score, is_fused=one_pass)
            scores = join_scores_of_rows(
                _iter_scores_of_fixed_rows(evaluator, iterator, observer, memory_limit, earlier), scores
            )
        assert scores is not None
        outcomes = _collect_outcomes(scores, progress, is_part=earlier is not None)
        by_row = dict(zip([*others, *moving], outcomes, strict=True))
        return [by_row[row] if comparison is None else comparison.pop_outcomes_of_row(row) for row in rows]


def _iter_scores_of_fixed_rows(
    evaluator: RowEvaluator,
    batches: Iterator[MiniBatch],
    observe: OutputObserver | None,
    memory_limit: int,
    earlier: EarlierParts | None,
) -> Iterator[Scores]:
    """Yield losses and correctness (rows, examples) of groups of mini-batches in rows whose statistics do not move."""
    double: RowEvaluator | None = None
    if evaluator.is_fused:
        first, second = next(batches), next(batches, None)
        check_one_pass_inputs(first[0])
        batches = chain([first] if second is None else [first, second], batches)
        retain_freed_memory()
        evaluator, double = _make_checked_evaluator(evaluator, first, second, memory_limit)
    yield from _iter_scores(evaluator, double, _iter_groups(evaluator, batches), observe, memory_limit, earlier)


def _make_checked_evaluator(
    evaluator: RowEvaluator, first: MiniBatch, second: MiniBatch | None, memory_limit: int
) -> tuple[RowEvaluator, RowEvaluator | None]:
    """Return an evaluator whose fused passes equal plain ones, and one of a copy in double precision, if possible.

    Inputs are repeated for each row where a network that shares the layers before its first normalization layer
    differs, as where it combines values behind that layer with indices of the first axis, or reads its length before.

    Raises:
        ModelError: neither equals plain passes.
    """
    inputs, rows = first[0], len(evaluator.rows)
    pair = BatchPair.from_mini_batches(first, second, _CHECKED_EXAMPLES)

    def check_evaluator(*, expand_inputs: bool) -> tuple[RowEvaluator, RowEvaluator | None]:
        chunking = choose_chunk_sizes(evaluator.network, inputs, rows, memory_limit, expand_inputs=expand_inputs)
        checked = evaluator.with_chunk_sizes(chunking, expand_inputs=expand_inputs)
        double = checked.try_copy_in_double_precision(inputs)
        if not are_fused_passes_checked(checked, inputs):
            check_fused_passes(
                checked if double is None else double, pair if double is None else pair.in_double_precision()
            )
            remember_checked_fused_passes(checked, inputs)
        return checked, double

    if isinstance(inputs, StructuredInputs) and inputs.device.type != "cpu":
        return check_evaluator(
            expand_inputs=True
        )  # an index out of range, which masks may cause, ends the process on a GPU
    with suppress(ModelError):  # the check of repeated inputs names the cause, where there is one
        return check_evaluator(expand_inputs=False)
    return check_evaluator(expand_inputs=True)


def _iter_groups(evaluator: RowEvaluator, batches: Iterable[MiniBatch]) -> Iterator[BatchGroup]:
    """Yield the mini-batches that are evaluated together; one alone by plain passes, its examples on any axis."""
    if evaluator.is_fused:
        return group_adjacent_batches(batches, evaluator.chunking.groups)
    return (BatchGroup(inputs, targets, groups=1, size=len(targets)) for inputs, targets in batches)


def _iter_scores(
    evaluator: RowEvaluator,
    double: RowEvaluator | None,
    groups: Iterable[BatchGroup],
    observe: OutputObserver | None,
    memory_limit: int,
    earlier: EarlierParts | None,
) -> Iterator[Scores]:
    """Yield losses and correctness (rows, examples) of each group; a sample of fused passes is compared with plain."""
    conditioning: IllConditionedRowDetector | None = None
    for group in groups:
        kept = _KeptOutputs(evaluator, group, 0 if observe is None else memory_limit)
        scores = evaluator.score_output_chunks(kept.iter_chunks_and_keep_them(), group.targets)
        if conditioning is None:
            conditioning, checks = _check_first_group(evaluator, double, group, scores.losses, earlier)
        if evaluator.is_fused:
            rounded = checks.check_group_and_find_rounding_errors(group, scores.losses)
            conditioning.mark_ill_conditioned_rows_and_warn(rounded)
        precise = conditioning.compute_outputs_of_ill_conditioned_rows(group)
        if observe is not None:
            for row, outputs in enumerate(row_outputs for chunk in kept.iter_chunks_again() for row_outputs in chunk):
                observe(evaluator.rows[row], precise.get(row, outputs), group.targets)
        for row, outputs in precise.items():
            scores.losses[row], scores.correct[row], _ = evaluator.score_outputs(outputs, group.targets)
        yield scores
    if conditioning is not None:
        conditioning.keep_rows_for_later_parts(earlier)


def _check_first_group(
    evaluator: RowEvaluator,
    double: RowEvaluator | None,
    group: BatchGroup,
    losses: Tensor,
    earlier: EarlierParts | None,
) -> tuple[IllConditionedRowDetector, SpotChecks]:
    """Find ill-conditioned rows by the first mini-batch; return what checks the next ones."""
    first = group.first_mini_batch
    if not evaluator.is_fused:
        require_reproducible_pass(evaluator, first, losses[0])
        double = evaluator.try_copy_in_double_precision(first[0])
    conditioning = IllConditionedRowDetector(evaluator, double, first[0])
    checks = SpotChecks(evaluator, double, conditioning.epsilon)
    if not conditioning.take_rows_of_earlier_parts(earlier):
        different = conditioning.find_rows_unlike_double(losses, first)
        for row in different if evaluator.is_fused else ():
            checks.check_and_match_plain_pass(group, losses, 0, row)
        conditioning.mark_ill_conditioned_rows_and_warn(different)
    return conditioning, checks


class _KeptOutputs:
    """The outputs of a group of mini-batches by chunks of rows, which can be read twice.

    Args:
        evaluator: computes the outputs.
        group: the mini-batches.
        memory_limit: bytes of the outputs of fused passes that are kept; more are computed again.
    """

    def __init__(self, evaluator: RowEvaluator, group: BatchGroup, memory_limit: int) -> None:
        self._evaluator, self._group, self._free = evaluator, group, memory_limit
        self._kept: list[Tensor] = []

    def iter_chunks_and_keep_them(self) -> Iterator[Tensor]:
        for chunk in self._evaluator.iter_outputs(self._group):
            self._free -= chunk.numel() * chunk.element_size()
            is_kept = self._free >= 0 or not self._evaluator.is_fused  # plain passes continue others: not repeated
            self._kept = [*self._kept, chunk] if is_kept else []
            yield chunk

    def iter_chunks_again(self) -> Iterable[Tensor]:
        return self._kept or self._evaluator.iter_outputs(self._group)


def _collect_outcomes(scores: Iterable[Scores], progress: Progress | None, *, is_part: bool) -> list[ExampleOutcomes]:
    losses, correct, weights = [], [], []
    for group in scores:
        losses.append((group.losses if group.losses.dtype == torch.float64 else group.losses.float()).cpu().numpy())
        correct.append(group.correct.cpu().numpy())
        weights.append(None if group.weights is None else group.weights.double().cpu().numpy())
        if progress is not None:
            progress(group.losses.shape[1])
    joined = join_weights(weights, [group.shape[1] for group in losses])
    joined = joined if is_part else without_equal_weights(joined)
    return [
        ExampleOutcomes(np.ascontiguousarray(row_losses), np.ascontiguousarray(row_correct), joined)
        for row_losses, row_correct in zip(np.concatenate(losses, 1), np.concatenate(correct, 1), strict=True)
    ]
