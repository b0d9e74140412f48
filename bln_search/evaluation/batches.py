"""Mini-batches for evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from bln_search.core.errors import DataError
from bln_search.data.inputs import (
    Inputs,
    can_append_examples,
    can_slice_examples,
    concatenate_inputs,
    describe_example_shape,
    have_same_shape,
)
from bln_search.data.lazy_images import LazyImages

MiniBatch = tuple[Inputs, Tensor]
"""Inputs (N, ...) and targets (n, ...), n ≤ N: inputs without a target are fillers, used for the statistics only."""


@dataclass(frozen=True)
class BatchGroup:
    """Concatenated mini-batches of one size: inputs (groups·size, ...), targets (≤ groups·size, ...)."""

    inputs: Inputs
    targets: Tensor
    groups: int
    size: int

    @property
    def first_mini_batch(self) -> MiniBatch:
        """The first of the mini-batches."""
        return (self.inputs if self.groups == 1 else self.inputs[: self.size]), self.targets[: self.size]


def iter_mini_batches_with_fillers(inputs: Inputs | LazyImages, targets: Tensor, size: int) -> Iterator[MiniBatch]:
    """Yield mini-batches of exactly `size` in the order of the data; every example is evaluated once.

    An incomplete last mini-batch is filled with the first examples, so that all examples are evaluated at one size.

    Raises:
        DataError: `size` is less than 1 or larger than the data.
    """
    n = len(inputs)
    if size < 1:
        raise DataError(f"the mini-batch size must be at least 1, not {size}")
    if n < size:
        raise DataError(f"a mini-batch of {size} examples is larger than the data, {n} examples: lower the batch size")
    for start in range(0, n, size):
        end = start + size
        if end <= n:
            yield inputs[start:end], targets[start:end]
        else:
            yield concatenate_inputs([inputs[start:], inputs[: end - n]]), targets[start:]


def iter_complete_mini_batches(inputs: Inputs | LazyImages, targets: Tensor, size: int) -> Iterator[MiniBatch]:
    """Yield the mini-batches of exactly `size` examples in the order of the data, without an incomplete last one."""
    yield from islice(iter_mini_batches_with_fillers(inputs, targets, size), len(inputs) // size)


def iter_batches_filled_to_first_size(batches: Iterable[MiniBatch]) -> Iterator[MiniBatch]:
    """Yield the batches of a loader; a batch smaller than the first is filled with examples of the first.

    Batches whose tensors do not have the examples on the first axis are not changed.

    Raises:
        DataError: a batch is larger than the first, or a smaller one has another example shape.
    """
    first: Inputs | None = None
    for inputs, targets in batches:
        first = inputs if first is None else first
        missing = len(first) - len(inputs) if can_slice_examples(inputs) and can_slice_examples(first) else 0
        if missing < 0:
            raise DataError(
                f"a mini-batch of {len(inputs)} examples follows one of {len(first)}: give mini-batches of one "
                "inference size, of which only the last may be smaller, or batch_sizes="
            )
        if missing > 0 and not can_append_examples(inputs, first):
            raise DataError(
                f"a mini-batch of {len(inputs)} examples of {describe_example_shape(inputs)} cannot be filled with "
                f"examples of the first one, of {describe_example_shape(first)}: give all examples one shape, or "
                "mini-batches of one size only"
            )
        yield (inputs, targets) if missing <= 0 else (concatenate_inputs([inputs, first[:missing]]), targets)


def group_adjacent_batches(batches: Iterable[MiniBatch], groups: int) -> Iterator[BatchGroup]:
    """Yield groups of up to `groups` adjacent mini-batches of one shape; one with fillers ends its group."""
    pending: list[MiniBatch] = []
    for batch in batches:
        if pending and (len(pending) == groups or not have_same_shape(batch[0], pending[0][0])):
            yield _concatenate_batches(pending)
            pending = []
        pending.append(batch)
        if len(batch[1]) < len(batch[0]):
            yield _concatenate_batches(pending)
            pending = []
    if pending:
        yield _concatenate_batches(pending)


def _concatenate_batches(batches: list[MiniBatch]) -> BatchGroup:
    size = len(batches[0][0])
    if len(batches) == 1:
        return BatchGroup(*batches[0], groups=1, size=size)
    inputs = concatenate_inputs([inputs for inputs, _ in batches])
    return BatchGroup(inputs, torch.cat([targets for _, targets in batches]), len(batches), size)
