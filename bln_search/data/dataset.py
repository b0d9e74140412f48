"""A decoded data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError

Inputs = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.floating[Any]]


@dataclass(frozen=True)
class DataSet:
    """Inputs as in the files (bytes, token ids, or floating-point measurements) and their classes.

    Attributes:
        name: of the data set.
        classes: names of the classes.
        train_inputs: (n, *input_shape).
        train_labels: (n,), int64.
        test_inputs: (n, *input_shape).
        test_labels: (n,), int64.
        scale: the largest input value.
        vocabulary: number of token ids; None where inputs are measurements.
        remarks: properties of the data that affect results.
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

    def check(self) -> None:
        """Check that inputs and labels have the documented types and shapes.

        Raises:
            DataError: an array has another type or shape; the message names it.
        """
        for split in ("train", "test"):
            inputs, labels = getattr(self, f"{split}_inputs"), getattr(self, f"{split}_labels")
            problem = _inputs_problem(inputs, np.shape(self.train_inputs)[1:])
            problem = problem or _labels_problem(labels, len(inputs), len(self.classes))
            if problem is not None:
                raise DataError(f"the data set {self.name}: {split}_{problem}")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.train_inputs.shape[1:])

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the decoded arrays: name, dtype, shape and bytes of each."""
        digest = hashlib.sha256()
        for name in ("train_inputs", "train_labels", "test_inputs", "test_labels"):
            array = np.ascontiguousarray(getattr(self, name))
            array = array.astype(
                array.dtype.newbyteorder("<"), copy=False
            )  # the hash must not depend on the byte order of the machine
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def _inputs_problem(inputs: object, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with the inputs of one split; None where nothing is."""
    if not isinstance(inputs, np.ndarray) or not (inputs.dtype in (np.uint8, np.uint16) or inputs.dtype.kind == "f"):
        return f"inputs are {_describe_array(inputs)}: uint8, uint16 or floating point is required"
    if not len(inputs) or inputs.shape[1:] != shape:
        return (
            f"inputs are {_describe_array(inputs)}: (examples, {', '.join(map(str, shape))}) is required, as in train"
        )
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        return "inputs contain NaN or infinity: remove these examples, or impute the values"
    return None


def _labels_problem(labels: object, examples: int, classes: int) -> str | None:
    """Return what is wrong with the labels of one split; None where nothing is."""
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64 or labels.shape != (examples,):
        return (
            f"labels are {_describe_array(labels)}: int64 of shape ({examples},) is required; "
            "use labels.astype('int64')"
        )
    if labels.min() < 0 or labels.max() >= classes:
        return f"labels go from {labels.min()} to {labels.max()}: {classes} classes have labels from 0 to {classes - 1}"
    return None


def _describe_array(array: object) -> str:
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
