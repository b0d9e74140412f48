"""The order in which a loader yields examples, so that readings in other orders can be joined example by example."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.errors import DataError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import Evaluation
from bln_search.data.inputs import Inputs, find_parts_of_structure

Fingerprints = NDArray[np.uint64]
"""A number for each example that is equal for equal inputs and targets, (n,)."""


def fingerprint_examples(inputs: Inputs, targets: Tensor, position: int = 0) -> Fingerprints:
    """Fingerprint each example of a mini-batch. position: the number of examples in earlier mini-batches.

    Tensors and objects that have no entry for each example are part of the fingerprint of each example. Where the
    contents of an object are unknown its position is a part too: then only readings in an equal order are equal.
    """
    examples = len(targets)
    tensors = [targets, inputs] if isinstance(inputs, Tensor) else [targets, *inputs.tensors]
    if not isinstance(inputs, Tensor):
        tensors.extend(chain.from_iterable(_digest_objects(x, examples, position) for x in inputs.iter_objects()))
    shared, columns = hashlib.blake2b(digest_size=8), []
    for x in tensors:
        if x.ndim and len(x) == examples:
            columns.append(_as_bytes(x).reshape(examples, -1))
        else:
            shared.update(_as_bytes(x).tobytes())
    digests = bytearray()
    for example in range(examples):
        digest = shared.copy()
        for column in columns:
            digest.update(column[example].tobytes())
        digests += digest.digest()
    return np.frombuffer(bytes(digests), np.uint64)


def _digest_objects(value: Any, examples: int, position: int) -> Iterator[Tensor]:
    """Yield a digest of each object in a structure without tensors, or of the entries that it has for the examples."""
    is_sequence = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    is_column = is_sequence and len(value) == examples
    parts = None if is_column else find_parts_of_structure(value)
    if parts:
        for part in parts.values():
            yield from _digest_objects(part, examples, position)
        return
    try:
        contents = [_pickle_contents(entry) for entry in (value if is_column else [value])]
    except Exception:  # noqa: BLE001 - whatever an object raises that cannot be pickled
        yield torch.arange(position, position + examples)
        return
    digests = b"".join(hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    digest = torch.frombuffer(bytearray(digests), dtype=torch.int64)
    yield digest if is_column else digest[0]


def _pickle_contents(value: Any) -> bytes:
    """Return the contents of an object, which do not depend on which of its parts are the same object."""
    stream = io.BytesIO()
    pickler = _ContentPickler(stream)
    pickler.fast = True
    pickler.dump(value)
    return stream.getvalue()


class _ContentPickler(pickle.Pickler):
    """Writes the values of tensors, not the names of their storages."""

    def reducer_override(self, value: Any) -> Any:
        return (bytes, (_as_bytes(value).tobytes(),)) if isinstance(value, Tensor) else NotImplemented


def _as_bytes(x: Tensor) -> NDArray[np.uint8]:
    dense = x.detach().to_dense() if x.layout is not torch.strided else x.detach()
    return dense.cpu().contiguous().flatten().view(torch.uint8).numpy()


def reorder_evaluations(
    evaluations: list[Evaluation], read: Fingerprints, reference: Fingerprints, loader: str
) -> list[Evaluation]:
    """The evaluations of a reading with outcomes in the order of the reference; equal examples keep their order.

    Raises:
        DataError: The readings have other examples.
    """
    if np.array_equal(read, reference):
        return evaluations
    if len(read) != len(reference):
        raise DataError(
            f"{loader} yields {len(read)} examples for one network and {len(reference)} for another: networks are "
            "compared on the same examples; give a loader without drop_last or random selection, or a list"
        )
    read_order, reference_order = np.argsort(read, kind="stable"), np.argsort(reference, kind="stable")
    different = int((read[read_order] != reference[reference_order]).sum())
    if different:
        raise DataError(
            f"{loader} yields other examples for one network than for another ({different} of {len(read)}): networks "
            "are compared on the same examples; give a loader without random augmentation or selection, or a list; "
            "for padded mini-batches, or objects of several examples, a loader in a fixed order"
        )
    positions = np.empty(len(read), np.intp)
    positions[reference_order] = read_order
    return [
        evaluation
        if evaluation.outcomes is None
        else replace(evaluation, outcomes=_take_examples(evaluation.outcomes, positions))
        for evaluation in evaluations
    ]


def _take_examples(outcomes: ExampleOutcomes, positions: NDArray[np.intp]) -> ExampleOutcomes:
    weights = None if outcomes.weights is None else outcomes.weights[positions]
    return replace(outcomes, losses=outcomes.losses[positions], correct=outcomes.correct[positions], weights=weights)
