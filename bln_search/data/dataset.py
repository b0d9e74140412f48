"""A decoded data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Inputs = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True)
class DataSet:
    """Inputs as they are in the files (bytes, or marks of words) and their classes.

    train_inputs: (n, *input_shape); train_labels: (n,), int64; the same for test. scale: the largest input value.
    vocabulary: inputs are marks below this number (words of a text); None where they are measurements.
    remarks: what one should know before believing figures of this data.
    """

    name: str
    classes: tuple[str, ...]
    train_inputs: Inputs
    train_labels: NDArray[np.int64]
    test_inputs: Inputs
    test_labels: NDArray[np.int64]
    scale: float = 255.0
    vocabulary: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.train_inputs.shape[1:])

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the arrays as decoded: of each its name, type, shape and bytes."""
        digest = hashlib.sha256()
        for name in ("train_inputs", "train_labels", "test_inputs", "test_labels"):
            array = np.ascontiguousarray(getattr(self, name))
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)  # the same on every machine
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()
