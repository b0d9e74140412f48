"""Mini-batches for evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.errors import DataError

MiniBatch = tuple[Tensor, Tensor]
"""Inputs (N, ...) and targets (n, ...), n ≤ N: inputs past the targets are company, there for the statistics only."""


@dataclass(frozen=True)
class Group:
    """Mini-batches of one size, one behind the other: inputs (groups·size, ...), targets (≤ groups·size, ...)."""

    inputs: Tensor
    targets: Tensor
    groups: int
    size: int


def mini_batches(inputs: Tensor, targets: Tensor, size: int) -> Iterator[MiniBatch]:
    """Mini-batches of exactly `size` in the order of the data, every example counted once.

    An incomplete last one is filled with the first examples as company, so that no example is judged in a mini-batch
    of another size.
    """
    n = len(inputs)
    if size < 1:
        raise DataError(f"a mini-batch has at least one example, not {size}")
    if n < size:
        raise DataError(f"a mini-batch of {size} examples is larger than the data, {n} examples: lower the batch size")
    for start in range(0, n, size):
        end = start + size
        if end <= n:
            yield inputs[start:end], targets[start:end]
        else:
            yield torch.cat([inputs[start:], inputs[: end - n]]), targets[start:]


def completed(batches: Iterable[MiniBatch]) -> Iterator[MiniBatch]:
    """The batches of a loader, a shorter one than the first filled from the first with company.

    Raises DataError for a larger one than the first: its examples would be evaluated at another mini-batch size.
    """
    first: Tensor | None = None
    for inputs, targets in batches:
        first = inputs if first is None else first
        missing = len(first) - len(inputs)
        if missing < 0:
            raise DataError(
                f"there is a mini-batch of {len(inputs)} examples behind one of {len(first)}: give mini-batches of one "
                "inference size, of which only the last may be smaller, or batch_sizes="
            )
        if missing > 0 and inputs.shape[1:] != first.shape[1:]:
            raise DataError(
                f"a mini-batch of {len(inputs)} examples is to be filled up with examples of the first one, and these "
                f"have another shape, {tuple(first.shape[1:])}, not {tuple(inputs.shape[1:])}: give all of them one "
                "shape, or mini-batches of one size only"
            )
        yield (inputs, targets) if missing <= 0 else (torch.cat([inputs, first[:missing]]), targets)


def grouped(batches: Iterable[MiniBatch], groups: int) -> Iterator[Group]:
    """Up to `groups` neighbouring mini-batches of one shape together."""
    waiting: list[MiniBatch] = []
    for batch in batches:
        if waiting and (len(waiting) == groups or batch[0].shape != waiting[0][0].shape):
            yield _group(waiting)
            waiting = []
        waiting.append(batch)
        if len(batch[1]) < len(batch[0]):
            yield _group(waiting)
            waiting = []
    if waiting:
        yield _group(waiting)


def _group(batches: list[MiniBatch]) -> Group:
    size = len(batches[0][0])
    if len(batches) == 1:
        return Group(*batches[0], groups=1, size=size)
    inputs = torch.cat([inputs for inputs, _ in batches])
    return Group(inputs, torch.cat([targets for _, targets in batches]), len(batches), size)
