"""Checks of the labels of a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.tasks import NO_CLASS, TaskName


def find_label_problem(labels: object, inputs: NDArray[Any], task: str, classes: int) -> str | None:
    """Return what is wrong with the labels of one split; None where nothing is.

    Args:
        labels: classes (n,) int64; for `multi_label` 0 or 1 of each label, (n, labels) uint8; for `regression` numbers,
            (n, numbers) or images (n, channels, ...), floating point; for `token_classification` the class of each
            token or -1, (n, tokens) int64; for `language_model` the predicted tokens or -1, (n, tokens) int64; for
            `density` nothing, (n, 0) int64.
        inputs: of the split, (n, ...).
        task: what the labels are made for; of a task of a package only their number is checked.
        classes: number of classes, labels, numbers or channels.
    """
    n = len(inputs)
    transposed = _find_axis_of_examples(labels, inputs)
    if transposed is not None:
        return (
            f"labels are {describe_array(labels)}, inputs {describe_array(inputs)}: the first axis of both counts the "
            f"examples; use np.moveaxis(inputs, {transposed}, 0)"
        )
    if not isinstance(task, TaskName):  # the package of the task checks labels when a study starts
        has_n = isinstance(labels, np.ndarray) and labels.ndim > 0 and len(labels) == n
        return None if has_n else f"labels are {describe_array(labels)}: one for each of the {n} inputs is required"
    check = _CHECKS.get(task)
    if check is not None:
        return check(labels, n, classes)
    shape = inputs.shape
    if task is TaskName.LANGUAGE_MODEL and isinstance(labels, np.ndarray) and labels.ndim == 2:
        shape = n, labels.shape[1]
    problem = _shape_problem(labels, shape, "int64")
    return problem or _range_problem(labels, NO_CLASS, classes - 1, f"{classes} classes")


def _find_axis_of_examples(labels: object, inputs: NDArray[Any]) -> int | None:
    """Return the axis of inputs that is as long as the labels, where the first one is shorter; None without one."""
    if not isinstance(labels, np.ndarray) or not labels.ndim or len(labels) <= len(inputs):
        return None
    return next((axis for axis, size in enumerate(inputs.shape) if size == len(labels)), None)


def _find_class_problem(labels: object, n: int, classes: int) -> str | None:
    return _shape_problem(labels, (n,), "int64") or _range_problem(labels, 0, classes - 1, f"{classes} classes")


def _find_multi_label_problem(labels: object, n: int, classes: int) -> str | None:
    return _shape_problem(labels, (n, classes), "uint8") or _range_problem(labels, 0, 1, "labels")


def _find_number_problem(labels: object, n: int, classes: int) -> str | None:
    shape: tuple[int, ...] = (n, classes)
    if isinstance(labels, np.ndarray) and labels.ndim > 2:
        shape = *shape, *labels.shape[2:]
    return _shape_problem(labels, shape, "floating point") or _finite_problem(labels)


_CHECKS: Mapping[TaskName, Callable[[object, int, int], str | None]] = {
    TaskName.CLASSIFICATION: _find_class_problem,
    TaskName.MULTI_LABEL: _find_multi_label_problem,
    TaskName.REGRESSION: _find_number_problem,
    TaskName.DENSITY: lambda labels, n, _: _shape_problem(labels, (n, 0), "int64"),
}
"""Checks of the labels of each task but those of tokens, which need the shape of the inputs."""


def _shape_problem(labels: object, shape: tuple[int, ...], kind: str) -> str | None:
    if isinstance(labels, np.ndarray) and labels.shape == shape:
        is_right = labels.dtype.kind == "f" if kind == "floating point" else labels.dtype == np.dtype(kind)
        if is_right:
            return None
    required = f"labels are {describe_array(labels)}: {kind} of shape {shape} is required"
    if not isinstance(labels, np.ndarray):
        return f"{required}; use np.asarray(labels)"
    if labels.dtype.kind in "OUS":
        return f"{required}; number the classes, as in np.unique(labels, return_inverse=True)"
    if not labels.ndim or len(labels) != shape[0]:
        return f"{required}; {shape[0]} inputs need {shape[0]} labels, the first axis of both counts the examples"
    if labels.shape != shape:
        return f"{required}; use labels.reshape{shape}" if labels.size == np.prod(shape) else required
    return f"{required}; use labels.astype({kind if kind != 'floating point' else 'float32'!r})"


def _range_problem(labels: Any, smallest: int, largest: int, what: str) -> str | None:
    if labels.min() < smallest or labels.max() > largest:
        return f"labels go from {labels.min()} to {labels.max()}: {what} have labels from {smallest} to {largest}"
    return None


def _finite_problem(labels: Any) -> str | None:
    return None if np.isfinite(labels).all() else "labels contain NaN or infinity: remove these examples"


def describe_array(array: object) -> str:
    """Return the type and shape of an array."""
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
