"""The shape of the inputs of an example: of one tensor, or of several with names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs, StructuredInputs, make_structured_inputs


@dataclass(frozen=True)
class InputField:
    """One of several inputs of an example.

    Attributes:
        shape: of one example.
        dtype: float32 for measurements, int64 for token ids and indices, bool for masks.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype


InputShape = tuple[int, ...] | Mapping[str, InputField]
"""The shape of the input of one example; of several inputs a field for each name."""


def is_structured(inputs: NDArray[Any]) -> bool:
    """Return whether an array has fields, one for each of several inputs."""
    return inputs.dtype.names is not None


def find_input_shape(inputs: NDArray[Any]) -> InputShape:
    """Return the shape of an example of inputs (n, ...) as in a data set."""
    return get_input_fields(inputs.dtype) if is_structured(inputs) else tuple(inputs.shape[1:])


def get_input_fields(dtype: np.dtype[Any]) -> dict[str, InputField]:
    """Return the inputs of an example that is a record of this type."""
    types = [(name, dtype[name]) for name in dtype.names or ()]
    return {name: InputField(field.shape, get_tensor_dtype(field.base)) for name, field in types}


def get_tensor_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """Return the type of the tensor of a field: bytes and floating-point numbers are measurements."""
    if dtype.kind == "b":
        return torch.bool
    return torch.float32 if dtype == np.uint8 or dtype.kind == "f" else torch.int64


def find_single_input_size(shape: InputShape) -> int | None:
    """Return how many numbers an input has; None for several inputs, some of which are not numbers of the example."""
    return int(np.prod(shape)) if isinstance(shape, tuple) else None


def require_single_tensor_for_purpose(inputs: Inputs, purpose: str) -> Tensor:
    """Return inputs that are one tensor.

    Args:
        inputs: of examples.
        purpose: what needs one tensor, to begin the message.

    Raises:
        ModelError: an example has several inputs.
    """
    if isinstance(inputs, Tensor):
        return inputs
    raise ModelError(f"{purpose} is for networks with one input, but an example of this data has several")


def make_zero_inputs(shape: InputShape, examples: int, *, is_text: bool) -> Inputs:
    """Return inputs of a number of examples, all zero.

    Args:
        shape: of one example.
        examples: their number.
        is_text: whether a single input consists of token ids.
    """
    if isinstance(shape, tuple):
        return torch.zeros(examples, *shape, dtype=torch.int64 if is_text else torch.float32)
    return _make_zero_fields(shape, examples)


def _make_zero_fields(shape: Mapping[str, InputField], examples: int) -> StructuredInputs:
    fields = {name: torch.zeros(examples, *field.shape, dtype=field.dtype) for name, field in shape.items()}
    return make_structured_inputs(fields, examples)
