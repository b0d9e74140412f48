"""Mini-batches from the loaders of a user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from bln_search.api.score import check_targets
from bln_search.core.errors import DataError
from bln_search.evaluation.batches import MiniBatch, fill_last_batch, mini_batches
from bln_search.evaluation.scoring import Score, describe_type

Loader = Iterable[Any]
"""Yields (inputs, targets), tensors whose first axis is the examples'; for instance a `DataLoader`."""


def split_batches(loader: Loader, device: torch.device, name: str, score: Score) -> list[MiniBatch]:
    """Load a split into memory; a shorter last mini-batch is filled up. Raises DataError for an empty split."""
    batches = list(fill_last_batch(scored_pairs(loader, device, name, score)))
    if not batches:
        raise DataError(f"{name} yields no mini-batch")
    return batches


def batches_by_size(
    batches: Iterator[MiniBatch], batch_sizes: Sequence[int] | None, name: str
) -> Iterator[tuple[int, Iterable[MiniBatch]]]:
    """Each inference mini-batch size with its mini-batches. Raises DataError for a split without a mini-batch."""
    if batch_sizes is not None:
        loaded = list(batches)
        if not loaded:
            raise DataError(f"{name} yields no mini-batch")
        inputs, targets = torch.cat([x for x, _ in loaded]), torch.cat([y for _, y in loaded])
        yield from ((size, mini_batches(inputs, targets, size)) for size in dict.fromkeys(batch_sizes))
        return
    first = next(batches, None)
    if first is None:
        raise DataError(f"{name} yields no mini-batch")
    yield len(first[0]), fill_last_batch(chain([first], batches))


def scored_pairs(loader: Loader, device: torch.device, name: str, score: Score) -> Iterator[MiniBatch]:
    """Mini-batches (inputs, targets); the targets are checked if a named score takes only some."""
    for inputs, targets in _loader_pairs(loader, device, name):
        check_targets(score, targets, name)
        yield inputs, targets


def loader_inputs(loader: Loader, device: torch.device, name: str) -> Iterator[Tensor]:
    """Copies of the inputs of a loader, which may yield targets too."""
    _check_loader(loader, name)
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) and len(batch) in (1, 2) else batch
        if not isinstance(inputs, Tensor):
            raise DataError(
                f"{name} must yield inputs, or (inputs, targets), tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_type(batch)}"
            )
        if not inputs.ndim:
            raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
        if len(inputs) == 0:
            raise DataError(f"{name} yields a mini-batch of 0 inputs")
        yield inputs.to(device, copy=True)


def _loader_pairs(loader: Loader, device: torch.device, name: str) -> Iterator[MiniBatch]:
    """Copies of a loader's mini-batches, because a loader may reuse its tensors."""
    _check_loader(loader, name)
    for batch in loader:
        is_pair = isinstance(batch, list | tuple) and len(batch) == 2
        if not is_pair or not all(isinstance(part, Tensor) for part in batch):
            raise DataError(
                f"{name} must yield (inputs, targets), two tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_type(batch)}"
            )
        inputs, targets = batch
        if not inputs.ndim or not targets.ndim:
            raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
        if len(inputs) != len(targets) or len(inputs) == 0:
            raise DataError(f"{name} yields {len(inputs)} inputs with {len(targets)} targets")
        yield inputs.to(device, copy=True), targets.to(device, copy=True)


def _check_loader(loader: object, name: str) -> None:
    """Raise DataError unless one can iterate over `loader`. name: of the argument, for the message."""
    try:
        iter(loader)  # type: ignore[call-overload]
    except TypeError:
        raise DataError(
            f"{name} has the type {type(loader).__name__}: it must yield mini-batches, as a "
            "torch.utils.data.DataLoader does"
        ) from None
