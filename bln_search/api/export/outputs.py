"""The outputs of an exported network: a tensor, or a nesting of tensors in tuples, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from bln_search.core.errors import ExportError


def flatten_outputs_by_name(outputs: Any, name: str = "outputs") -> dict[str, Tensor]:
    """The tensors of the outputs in order, by name: `outputs`, or the keys and positions that lead to a tensor.

    Args:
        outputs: What the network returns.
        name: Name of the output if it is one tensor.

    Raises:
        ExportError: The outputs contain something else.
    """
    if isinstance(outputs, Tensor):
        return {name: outputs}
    return dict(_iter_named_tensor_leaves(outputs, ""))


def _iter_named_tensor_leaves(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    kind = type(value)
    if isinstance(value, Tensor):
        yield path, value
    elif kind is dict:
        for key, part in value.items():
            yield from _iter_named_tensor_leaves(part, f"{path}_{key}" if path else str(key))
    elif kind in (tuple, list):
        for index, part in enumerate(value):
            yield from _iter_named_tensor_leaves(part, f"{path or 'outputs'}_{index}")
    else:
        raise ExportError(
            f"the network returns {f'a {kind.__name__} as {path}' if path else f'a {kind.__name__}'}: wrap it so that "
            "the forward pass returns a tensor, or tensors in a tuple, list or dict; nothing was written"
        )
