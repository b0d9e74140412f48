"""Conversion of the inputs of a data set to tensors, standardized by the training examples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet, Labels
from bln_search.data.dataset import Inputs as InputArray
from bln_search.data.input_shape import get_tensor_dtype, is_structured
from bln_search.data.inputs import Inputs, make_structured_inputs
from bln_search.specs.sections.data import Standardization

_SLICE_EXAMPLES = 4096


@contextmanager
def _overflow_as_data_error() -> Iterator[None]:
    """Raise DataError where NumPy would warn."""
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except FloatingPointError as error:
        raise DataError(f"inputs or targets cannot be standardized ({error}): scale their values down") from None


class Standardizer:
    """(x − mean)/deviation, fitted in float64.

    A constant input is only centred. With standardization `none` inputs are divided by the largest input value.

    Args:
        inputs: of the training examples, (n, *input_shape).
        scale: the largest input value.
        kind: of the standardization.

    Attributes:
        mean: float64, with the number of axes of `inputs`, the first of length one.
        deviation: float64, of the shape of `mean`.
    """

    def __init__(self, inputs: InputArray | Labels, scale: float, kind: Standardization) -> None:
        self.mean: NDArray[np.float64] = np.zeros((1,) * inputs.ndim)
        self.deviation: NDArray[np.float64] = np.full((1,) * inputs.ndim, scale, dtype=np.float64)
        if kind is not Standardization.NONE:
            with _overflow_as_data_error():
                self._fit(inputs, kind)

    def _fit(self, inputs: InputArray | Labels, kind: Standardization) -> None:
        axes = (0,) if kind is Standardization.PIXEL else (0, *range(2, inputs.ndim))
        minimum, maximum = inputs.min(axes, keepdims=True), inputs.max(axes, keepdims=True)
        is_constant = minimum == maximum  # rounding of the mean would give constant inputs a deviation above zero
        deviation = inputs.std(axes, dtype=np.float64, keepdims=True)
        self.mean = np.where(is_constant, minimum, inputs.mean(axes, dtype=np.float64, keepdims=True))
        self.deviation = np.where(is_constant | (deviation == 0), 1.0, deviation)

    def __call__(self, inputs: InputArray | Labels) -> NDArray[np.float32]:
        """Return standardized inputs, computed in slices so that float64 copies stay small."""
        standardized = np.empty(inputs.shape, np.float32)
        for start in range(0, len(inputs), _SLICE_EXAMPLES):
            rows = slice(start, start + _SLICE_EXAMPLES)
            with _overflow_as_data_error():
                standardized[rows] = (inputs[rows] - self.mean) / self.deviation
        return standardized


class InputConverter:
    """Converts the inputs of examples to tensors. Measurements are standardized by the training examples.

    Args:
        data: the data set.
        training: indices of its training examples, (n,).
        kind: of the standardization.

    Attributes:
        standardizer: of inputs that are one array of measurements; None for token ids and for several inputs.
    """

    def __init__(self, data: DataSet, training: NDArray[np.int64], kind: Standardization) -> None:
        inputs: NDArray[Any] = data.train_inputs[training]
        self.standardizer: Standardizer | None = None
        self._fields: dict[str, Standardizer | None] = {}
        if is_structured(inputs):
            self._fields = {name: _fit_field(inputs[name], data.scale, kind) for name in (inputs.dtype.names or ())}
        elif data.vocabulary is None:
            self.standardizer = Standardizer(inputs, data.scale, kind)

    def __call__(self, inputs: NDArray[Any], device: torch.device | str) -> Inputs:
        """Return inputs (n, ...) on a device: float32, int64 token ids, or a tensor for each of several inputs."""
        if not self._fields:
            return _to_tensor(inputs, self.standardizer).to(device)
        tensors = {
            name: _to_tensor(inputs[name], standardizer).to(device) for name, standardizer in self._fields.items()
        }
        return make_structured_inputs(tensors, len(inputs))


def _fit_field(values: InputArray, scale: float, kind: Standardization) -> Standardizer | None:
    """Return the standardization of one of several inputs; None for token ids and masks.

    With standardization `none` floating-point numbers stay as they are, bytes are divided by the largest value.
    """
    if get_tensor_dtype(values.dtype) is not torch.float32:
        return None
    return Standardizer(values, scale if values.dtype == np.uint8 else 1.0, kind)


def _to_tensor(values: InputArray, standardizer: Standardizer | None) -> Tensor:
    if standardizer is not None:
        return torch.from_numpy(standardizer(values))
    if values.dtype.kind == "b":
        return torch.from_numpy(np.ascontiguousarray(values))
    return torch.from_numpy(values.astype(np.int64))
