"""All rows of a plan in one pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import nn

from bln_search.core.errors import DataError
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import Group, MiniBatch, grouped
from bln_search.evaluation.conditioning import Conditioning
from bln_search.evaluation.independence import Pair, check_pair
from bln_search.evaluation.memory import MEMORY_LIMIT, choose_chunking, keep_freed_memory
from bln_search.evaluation.row_evaluator import RowEvaluator, Scores
from bln_search.evaluation.scoring import Score, cross_entropy
from bln_search.evaluation.spot_checks import SpotChecks
from bln_search.norms.network_layers import evaluation_mode, find_norms
from bln_search.norms.precision import full_precision
from bln_search.norms.row_tensor import Populations, Row

_CHECKED = 8
"""Examples of each of two mini-batches that are compared with plain passes before the pass."""

Progress = Callable[[int], None]
"""Called with the number of examples just finished."""


@torch.no_grad()
def evaluate_rows(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[Row],
    populations: Populations,
    *,
    score: Score = cross_entropy,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
) -> list[Outcomes]:
    """Per-example losses and correctness of `network` under each of `rows`, in the order of the examples.

    Layers other than the normalization layers must treat examples independently: two mini-batches are compared with
    plain forward passes before the pass, and a sample of mini-batches and rows during it; a difference is a ModelError.
    Rows whose losses are rounding in single precision are evaluated in double precision, with a warning (UserWarning).
    one_pass=False evaluates row by row, for networks that the one-pass evaluation cannot follow. memory_limit: bytes of
    the largest activation of all rows together.
    """
    find_norms(network)
    if not rows:
        return []
    with full_precision(), evaluation_mode(network):
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            raise DataError("there is nothing to evaluate: the data has no mini-batch")
        if not one_pass:
            evaluator = RowEvaluator(network, rows, populations, score=score)
            return _collected(_one_by_one(evaluator, first, chain([first], iterator)), progress)
        second = next(iterator, None)
        everything = chain([first] if second is None else [first, second], iterator)
        chunking = choose_chunking(network, first[0], len(rows), memory_limit)
        evaluator = RowEvaluator(network, rows, populations, score=score, chunking=chunking)
        groups = grouped(everything, chunking.groups)
        return _collected(_fused(evaluator, first, second, groups), progress)


def _fused(
    evaluator: RowEvaluator, first: MiniBatch, second: MiniBatch | None, groups: Iterable[Group]
) -> Iterator[Scores]:
    """Losses and correctness (rows, examples) of each group."""
    keep_freed_memory()
    double = evaluator.in_double(first[0])
    pair = Pair.of(first, second, _CHECKED)
    check_pair(evaluator if double is None else double, pair if double is None else pair.in_double())
    conditioning = Conditioning(evaluator, double, first[0])
    checks = SpotChecks(evaluator, double, conditioning.epsilon)
    for place, group in enumerate(groups):
        losses, correct = evaluator.scores(group)
        if place == 0:
            different = conditioning.compare(losses[:, : len(first[1])], first)
            for row in different:
                checks.is_equal(group, losses, 0, row)
            conditioning.add(different)
        conditioning.add(checks.rounded_rows(group, losses))
        yield conditioning.corrected(group, losses, correct)


def _one_by_one(evaluator: RowEvaluator, first: MiniBatch, batches: Iterable[MiniBatch]) -> Iterator[Scores]:
    conditioning = Conditioning(evaluator, evaluator.in_double(first[0]), first[0])
    for place, batch in enumerate(batches):
        found = [evaluator.plain_scores(row, batch) for row in range(len(evaluator.rows))]
        losses, correct = (torch.stack(values) for values in zip(*found, strict=True))
        if place == 0:
            conditioning.add(conditioning.compare_plain(losses, batch))
        yield conditioning.corrected_plain(batch, losses, correct)


def _collected(parts: Iterable[Scores], progress: Progress | None) -> list[Outcomes]:
    losses, correct = [], []
    for loss, right in parts:
        losses.append((loss if loss.dtype == torch.float64 else loss.float()).cpu().numpy())
        correct.append(right.cpu().numpy())
        if progress is not None:
            progress(loss.shape[1])
    all_losses, all_correct = np.concatenate(losses, 1), np.concatenate(correct, 1)
    return [
        Outcomes(np.ascontiguousarray(a), np.ascontiguousarray(b)) for a, b in zip(all_losses, all_correct, strict=True)
    ]
