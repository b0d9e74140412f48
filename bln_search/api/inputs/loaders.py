"""Mini-batches of a split from the loader of a user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import torch

from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.role_loader import RoleLoader
from bln_search.core.errors import DataError
from bln_search.data.inputs import can_slice_examples, concatenate_inputs, describe_example_shape, have_same_form
from bln_search.evaluation.batches import MiniBatch, iter_batches_filled_to_first_size, iter_mini_batches_with_fillers
from bln_search.tasks.score import Score


def load_split_into_memory(loader: RoleLoader, score: Score, adapter: BatchAdapter) -> list[MiniBatch]:
    """Load a split into memory; a shorter last mini-batch is filled up. Raises DataError for an empty split."""
    return list(iter_batches_filled_to_first_size(adapter.iter_input_target_pairs(loader, score)))


def iter_batches_by_size(
    batches: Iterator[MiniBatch], batch_sizes: Sequence[int] | None, name: str
) -> Iterator[tuple[int, Iterable[MiniBatch]]]:
    """Each inference mini-batch size with its mini-batches, of which there is at least one."""
    if batch_sizes is not None:
        loaded = list(batches)
        _check_batches_concatenable(loaded, name)
        check_split_holds_largest_batch(sum(len(y) for _, y in loaded), batch_sizes, name)
        inputs, targets = concatenate_inputs([x for x, _ in loaded]), torch.cat([y for _, y in loaded])
        yield from (
            (size, iter_mini_batches_with_fillers(inputs, targets, size)) for size in dict.fromkeys(batch_sizes)
        )
        return
    first = next(batches)
    yield len(first[0]), iter_batches_filled_to_first_size(chain([first], batches))


def check_split_holds_largest_batch(examples: int, batch_sizes: Sequence[int], name: str) -> None:
    """Raise DataError if a split has fewer examples than the largest mini-batch size."""
    largest = max(batch_sizes)
    if examples < largest:
        raise DataError(
            f"batch_sizes has {largest}, which is larger than the data of {name}, {examples} examples: lower it, or "
            "give more examples"
        )


def _check_batches_concatenable(batches: Sequence[MiniBatch], name: str) -> None:
    """Raise DataError unless examples of all mini-batches can be in one mini-batch."""
    first = batches[0][0]
    if not can_slice_examples(first):
        raise DataError(f"batch_sizes= needs tensors with the examples on their first axis; {name} yields others")
    other = next((inputs for inputs, _ in batches if not have_same_form(inputs, first)), None)
    if other is not None:
        raise DataError(
            f"batch_sizes= makes mini-batches of the examples of {name}, which differ in their shapes or constants: "
            f"{describe_example_shape(first)} and {describe_example_shape(other)}; give all examples "
            "one shape, or no batch_sizes="
        )
