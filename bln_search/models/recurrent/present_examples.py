"""Normalization of the examples that have a value at a time step; the others are padding there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.core.method import BATCH_STATISTICS
from bln_search.norms.normalization import Normalization
from bln_search.norms.row_batching.row_tensor import BatchLayout, RowBatchedTensor, remove_row_tag, tag_with_rows

_FEWEST_FOR_POPULATION = 2
"""Number of examples from which statistics of the mini-batch count for a population: one example has no deviation."""


def normalize_present_examples(layer: nn.Module, x: Tensor, present: Tensor) -> Tensor:
    """Normalize the examples that are present, as a mini-batch of their own; return zeros for the others.

    With one example present, statistics of the mini-batch are those of a mini-batch of one: the mean is the example
    itself, the deviation √ε, and the normalized value β. The population is estimated from mini-batches with two or more
    examples present, weighted by their number; methods without statistics of the mini-batch include those with one.

    Args:
        layer: a normalization layer.
        x: (N, features).
        present: (N,), whether each example is present.

    Raises:
        ModelError: a layer that is exported takes statistics from the mini-batch.
    """
    if isinstance(layer, Normalization) and not layer.method.statistics:
        unchanged: Tensor = layer(x)
        return unchanged
    if torch.compiler.is_exporting():
        return _normalize_with_padding_examples(layer, x)
    if isinstance(x, RowBatchedTensor):
        return _normalize_present_under_all_rows(layer, x, present)
    selected = present.nonzero().squeeze(1)
    if not len(selected):
        return torch.zeros_like(x)
    with _weight_recording_by_subset_size(layer, len(selected)):
        if len(selected) == len(x):
            complete: Tensor = layer(x)
            return complete
        normalized: Tensor = layer(x[selected])
    return normalized.new_zeros(x.shape).index_copy(0, selected, normalized)


def _normalize_with_padding_examples(layer: nn.Module, x: Tensor) -> Tensor:
    """Normalize all examples, each independent of the others, so that an exported program has no indices."""
    if isinstance(layer, Normalization) and (
        layer.configuration.is_moving
        or any(
            layer.configuration.source_of(statistic).reads_mini_batch
            for statistic in BATCH_STATISTICS
            if statistic in layer.method.statistics
        )
    ):
        raise ModelError(
            f"configuration {layer.configuration} takes statistics from the examples of the mini-batch that are not "
            "padding, which an exported program cannot select: export a row with population values of E_B and Std_B"
        )
    normalized: Tensor = layer(x)
    return normalized


def _normalize_present_under_all_rows(layer: nn.Module, x: RowBatchedTensor, present: Tensor) -> RowBatchedTensor:
    """Normalize under all rows; mini-batches with equally many examples present are normalized together."""
    layout = x.batch_layout
    plain = remove_row_tag(present) if isinstance(present, RowBatchedTensor) else present
    is_present = plain[: layout.examples_per_row].view(layout.groups, layout.size)
    values = remove_row_tag(x).view(x.copies, layout.examples_per_row, x.shape[1])
    counts = is_present.sum(1)
    result: Tensor | None = None
    for count in sorted(set(counts.tolist())):
        if not count:
            continue
        groups = (counts == count).nonzero().squeeze(1)
        slots = is_present[groups].nonzero()[:, 1].view(len(groups), count)
        examples = (groups.unsqueeze(1) * layout.size + slots).flatten()
        part = BatchLayout(layout.plan, len(groups), count)
        normalized = layer(tag_with_rows(values[:, examples].flatten(0, 1), part, x.copies))
        plain_result = remove_row_tag(normalized).view(normalized.copies, len(examples), x.shape[1])
        if result is None:
            result = plain_result.new_zeros(normalized.copies, layout.examples_per_row, x.shape[1])
        result[:, examples] = plain_result
    if result is None:
        return tag_with_rows(torch.zeros_like(remove_row_tag(x)), layout, x.copies)
    return tag_with_rows(result.flatten(0, 1), layout, len(result))


@contextmanager
def _weight_recording_by_subset_size(layer: nn.Module, examples: int) -> Iterator[None]:
    """In this context accumulators take mini-batches of different sizes, weighted by size, if they are large enough."""
    if not isinstance(layer, Normalization):
        yield
        return
    accumulators = layer.accumulators
    for accumulator in accumulators:
        accumulator.includes_all_sizes = accumulator.weighs_by_size = True
    if layer.has_batch_statistics and examples < _FEWEST_FOR_POPULATION:
        layer.accumulators = []
    try:
        yield
    finally:
        layer.accumulators = accumulators
