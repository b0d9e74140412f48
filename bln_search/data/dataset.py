"""A decoded data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class DataSet:
    """Inputs as they are in the files (bytes, or real numbers where the source has them) and their classes.

    train_inputs: (n, *input_shape); train_labels: (n,), int64; the same for test. scale: the largest input value.
    """

    name: str
    classes: tuple[str, ...]
    train_inputs: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_inputs: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    scale: float = 255.0

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
