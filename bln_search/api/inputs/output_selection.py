"""The tensor in the output of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.data.inputs import describe_value

_OUTPUT_KEYS = ("logits", "out")
"""Keys or attributes of the tensor in an output: those of transformers, and of torchvision's segmentation."""


def return_output_unchanged(output: Any) -> Any:
    """The output itself."""
    return output


def make_output_tensor_selector(output: Any, examples: int) -> Callable[[Any], Any]:
    """A function that returns the tensor in an output like this one. Raises ModelError if there is none."""
    if isinstance(output, Tensor):
        return return_output_unchanged
    if isinstance(output, Mapping):
        selections: list[Callable[[Any], Any]] = [itemgetter(key) for key in _OUTPUT_KEYS if key in output]
    elif isinstance(output, list | tuple):
        selections = [itemgetter(0)] if output else []
    else:
        selections = [attrgetter(key) for key in _OUTPUT_KEYS if hasattr(output, key)]
    for select in selections:
        value = select(output)
        if isinstance(value, Tensor) and value.ndim and len(value) == examples:
            return select
    raise ModelError(
        f"the network returns {describe_value(output)}, and none of it is known to be the outputs of its {examples} "
        "examples: give forward=, which returns one tensor, examples first, as in "
        'forward=lambda model, batch: model(batch)["scores"]'
    )
