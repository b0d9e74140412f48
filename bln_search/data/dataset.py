"""A decoded data set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.core.tasks import TaskName
from bln_search.data.input_shape import InputShape, find_input_shape
from bln_search.data.label_checks import describe_array, find_label_problem

Inputs = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.floating[Any]] | NDArray[Any]
"""Inputs of the examples of a split. Several inputs of an example are the fields of a structured array (n,)."""

_KEYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")

Labels = NDArray[np.int64] | NDArray[np.uint8] | NDArray[np.floating[Any]]


@dataclass(frozen=True)
class DataSet:
    """Inputs as in the files (bytes, token ids, or floating-point measurements) and their labels.

    An example with several inputs is a record of a structured array, whose fields have names and types of their own:
    `uint8` and floating-point fields are measurements, `uint16` fields are token ids or indices, `bool` fields masks.

    Labels are classes, (n,) int64; for other tasks see `bln_search.data.label_checks.find_label_problem`.

    Attributes:
        name: of the data set.
        classes: names of the classes; of the labels of a multi-label task, or of the numbers of a regression.
        train_inputs: (n, *input_shape), or (n,) with fields.
        train_labels: of the training inputs.
        test_inputs: (n, *input_shape).
        test_labels: of the test inputs.
        scale: the largest input value.
        vocabulary: number of token ids; None where inputs are measurements.
        remarks: properties of the data that affect results.
        task: what the labels are made for.
    """

    name: str
    classes: tuple[str, ...]
    train_inputs: Inputs
    train_labels: Labels
    test_inputs: Inputs
    test_labels: Labels
    scale: float = 255.0
    vocabulary: int | None = None
    remarks: tuple[str, ...] = ()
    task: str = TaskName.CLASSIFICATION

    @classmethod
    def from_arrays(
        cls, name: str, classes: tuple[str, ...], arrays: Mapping[str, NDArray[Any]], **options: Any
    ) -> DataSet:
        """Return a data set of the arrays of a mapping, as `np.load` returns one.

        Args:
            name: of the data set.
            classes: names of the classes.
            arrays: `train_inputs`, `train_labels`, `test_inputs` and `test_labels`, and nothing else.
            options: other attributes.

        Raises:
            DataError: a key is missing or unknown, or NumPy cannot load an array without pickle.
        """
        missing, unknown = (sorted({*first} - {*second}) for first, second in ((_KEYS, arrays), (arrays, _KEYS)))
        if missing or unknown:
            problems = [f"{word} {', '.join(keys)}" for word, keys in (("no", missing), ("also", unknown)) if keys]
            raise DataError(f"the data set {name} has {' and '.join(problems)}: it needs exactly {', '.join(_KEYS)}")
        inputs, labels, test_inputs, test_labels = (_load_array(name, key, arrays) for key in _KEYS)
        return cls(name, classes, inputs, labels, test_inputs, test_labels, **options)

    def check(self) -> None:
        """Check that inputs and labels have the documented types and shapes.

        Raises:
            DataError: an array has another type or shape; the message names it.
        """
        for split in ("train", "test"):
            inputs, labels = getattr(self, f"{split}_inputs"), getattr(self, f"{split}_labels")
            problem = _find_inputs_problem(inputs, self.train_inputs)
            problem = problem or find_label_problem(labels, inputs, self.task, len(self.classes))
            if problem is not None:
                raise DataError(f"the data set {self.name}: {split}_{problem}")

    @property
    def train_class_indices(self) -> NDArray[np.int64]:
        """The class of each training input, of a classification."""
        return self.train_labels.astype(np.int64, copy=False)

    @property
    def test_class_indices(self) -> NDArray[np.int64]:
        """The class of each test input, of a classification."""
        return self.test_labels.astype(np.int64, copy=False)

    @property
    def input_shape(self) -> InputShape:
        """The shape of one example; of several inputs a field for each name."""
        return find_input_shape(self.train_inputs)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the decoded arrays: name, dtype, shape and bytes of each."""
        digest = hashlib.sha256()
        for name in _KEYS:
            array = np.ascontiguousarray(getattr(self, name))
            array = array.astype(
                array.dtype.newbyteorder("<"), copy=False
            )  # the hash must not depend on the byte order of the machine
            dtype = array.dtype.str if array.dtype.names is None else array.dtype.descr
            digest.update(f"{name} {dtype} {array.shape} ".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def _load_array(name: str, key: str, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return an array; files of NumPy read it only now."""
    try:
        return arrays[key]
    except ValueError as error:
        raise DataError(
            f"the data set {name}: {key} cannot be loaded ({error}): save numbers, not Python objects, as in "
            f"np.savez(file, {key}=np.stack(examples))"
        ) from error


def _find_inputs_problem(inputs: object, training: NDArray[Any]) -> str | None:
    """Return what is wrong with the inputs of one split; None where nothing is."""
    if not isinstance(inputs, np.ndarray) or inputs.dtype.names is None:
        problem = _find_array_problem(inputs, np.shape(training)[1:])
        return problem or _find_dtype_problem(inputs, training)
    if inputs.dtype != training.dtype or inputs.ndim != 1 or not len(inputs):
        return f"inputs are {describe_array(inputs)}: (examples,) with the fields of train is required"
    for name in inputs.dtype.names:
        field = inputs[name]
        if field.dtype.kind == "b":
            continue
        problem = _find_array_problem(field, field.shape[1:]) or _find_dtype_problem(field, training[name])
        if problem is not None:
            return f"inputs, field {name}: {problem}"
    return None


def _find_dtype_problem(inputs: object, training: NDArray[Any]) -> str | None:
    """Return in which type or range the inputs of a split differ from those of training; None where in none."""
    if not isinstance(inputs, np.ndarray) or inputs.dtype != training.dtype:
        return f"inputs are {describe_array(inputs)}, train_inputs {training.dtype}: give both the same type and range"
    limits = {
        (array.min() >= 0, array.max() <= 1, array.max() > 128, array.max() <= 255) for array in (inputs, training)
    }
    if inputs.dtype.kind == "f" and limits == {(True, True, False, True), (True, False, True, True)}:
        return (
            f"inputs go up to {inputs.max():g}, train_inputs up to {training.max():g}: one of them seems to be divided "
            "by 255: give both the same range"
        )
    return None


def _find_array_problem(inputs: object, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with an array of inputs; None where nothing is."""
    if not isinstance(inputs, np.ndarray) or not (inputs.dtype in (np.uint8, np.uint16) or inputs.dtype.kind == "f"):
        return f"inputs are {describe_array(inputs)}: uint8, uint16 or floating point is required"
    if not len(inputs) or inputs.shape[1:] != shape:
        return f"inputs are {describe_array(inputs)}: (examples, {', '.join(map(str, shape))}) is required, as in train"
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        return "inputs contain NaN or infinity: remove these examples, or impute the values"
    return None
