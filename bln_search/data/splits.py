"""Which examples are for training and which for validation: the same for the same seed, everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from bln_search.core.errors import DataError
from bln_search.specs.data import DataSpec
from bln_search.specs.sizes import held_out

Indices = NDArray[np.int64]


def split_indices(labels: NDArray[np.int64], spec: DataSpec) -> tuple[Indices, Indices]:
    """Positions of the training and of the validation examples among `labels`, in drawn order."""
    everything = np.arange(len(labels))
    held = held_out(spec, len(labels))
    training, validation = _divide(everything, labels, held, spec.seed, spec, "validation")
    if spec.fraction < 1:
        training = _subset(training, labels, spec)
        validation = _subset(validation, labels, spec)
    return training, validation


def _subset(indices: Indices, labels: NDArray[np.int64], spec: DataSpec) -> Indices:
    wanted = round(spec.fraction * len(indices))
    if wanted < 1:
        raise DataError(
            f"data.fraction {spec.fraction} of {len(indices)} examples leaves none; the smallest that leaves one is "
            f"{1 / len(indices):.2g}"
        )
    if wanted == len(indices):
        return indices
    _, chosen = _divide(indices, labels, wanted, spec.seed + 1, spec, "fraction")
    return chosen


def _divide(
    indices: Indices, labels: NDArray[np.int64], second: int, seed: int, spec: DataSpec, what: str
) -> tuple[Indices, Indices]:
    """`indices` without and with `second` drawn examples."""
    if second >= len(indices):
        raise DataError(f"data.{what} wants {second} of {len(indices)} examples and leaves none for the rest")
    stratify = labels[indices] if spec.stratified else None
    try:
        first, drawn = train_test_split(indices, test_size=second, random_state=seed % 2**32, stratify=stratify)
    except ValueError as error:
        raise DataError(
            f"data.{what}: {second} of {len(indices)} examples cannot be drawn with the proportions of the classes "
            f"kept ({error}); take more, or set data.stratified to false"
        ) from None
    return np.asarray(first), np.asarray(drawn)
