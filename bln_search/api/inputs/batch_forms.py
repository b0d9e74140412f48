"""Inputs and targets in the mini-batches of a user's loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from bln_search.core.errors import DataError
from bln_search.data.inputs import build_structure_of_same_type, describe_value

Target = Callable[[Any], Tensor]
"""Returns the targets in a mini-batch of a loader."""

LABEL_KEYS = ("labels", "label", "targets", "target")
"""Keys of the targets in a dictionary."""

_FORWARD_HINT = 'give forward=, as in forward=lambda model, batch: model(batch["x"], batch["mask"])'
_TARGET_HINT = 'give target=, as in target=lambda batch: batch["y"]'


def extract_targets_from_batch(batch: Any, target: Target | None, name: str) -> Any:
    """The targets in a mini-batch.

    Args:
        batch: What the loader yields.
        target: A function of the user; None for the second of two parts, or for the labels of a dictionary.
        name: The argument of the loader, for messages.

    Raises:
        DataError: There are none.
    """
    if target is not None:
        try:
            return target(batch)
        except Exception as error:
            raise DataError(
                f"target= failed for a mini-batch of {name} ({type(error).__name__}: {error}), which is "
                f"{describe_value(batch)}"
            ) from error
    if isinstance(batch, Mapping):
        key = next((key for key in LABEL_KEYS if key in batch), None)
        if key is not None:
            return batch[key]
        raise DataError(
            f"{name} yields {describe_value(batch)}, which has none of the keys {', '.join(LABEL_KEYS)}: {_TARGET_HINT}"
        )
    if isinstance(batch, list | tuple) and len(batch) == 2:
        return batch[1]
    raise DataError(
        f"{name} must yield (inputs, targets), tensors with examples on the first axis, as a "
        f"torch.utils.data.DataLoader does, or a dictionary with labels; it yields {describe_value(batch)}: "
        f"{_TARGET_HINT}, and forward=, which calls the network"
    )


def extract_inputs_from_batch(batch: Any, target: Target | None, name: str, *, with_targets: bool) -> Any:
    """The inputs in a mini-batch: a tensor, a dictionary of keywords, or a list of arguments.

    Args:
        batch: What the loader yields.
        target: A function of the user that returns the targets; None for the default.
        name: The argument of the loader, for messages.
        with_targets: Whether a mini-batch must have targets. A tensor, or a list of one, is inputs alone.

    Raises:
        DataError: The mini-batch has another form.
    """
    if isinstance(batch, Tensor):
        return batch
    if isinstance(batch, Mapping):
        inputs: Any = _drop_targets_from_mapping(batch, target)
    elif isinstance(batch, list | tuple) and len(batch) in ((2,) if with_targets else (1, 2)):
        inputs = batch[0]
    else:
        inputs = None
    if _is_accepted_network_input(inputs):
        return inputs
    wanted = "(inputs, targets)" if with_targets else "inputs, or (inputs, targets)"
    raise DataError(
        f"{name} must yield {wanted}, tensors with examples on the first axis, as a torch.utils.data.DataLoader does, "
        f"or a dictionary of tensors; it yields {describe_value(batch)}: {_FORWARD_HINT}"
    )


def call_network_with_unpacked_inputs(network: Any, inputs: Any) -> Any:
    """The output of a network for a tensor, a dictionary of keywords, or a list of arguments."""
    if isinstance(inputs, Mapping):
        return network(**inputs)
    return network(*inputs) if isinstance(inputs, list | tuple) else network(inputs)


def _is_accepted_network_input(inputs: Any) -> bool:
    """Whether `inputs` is a tensor, a dictionary with a tensor, or a list that begins with one."""
    if isinstance(inputs, Mapping):
        return all(isinstance(key, str) for key in inputs) and any(isinstance(part, Tensor) for part in inputs.values())
    return isinstance(inputs, Tensor) or (
        isinstance(inputs, list | tuple) and bool(inputs) and isinstance(inputs[0], Tensor)
    )


def _drop_targets_from_mapping(batch: Mapping[Any, Any], target: Target | None) -> Any:
    """The dictionary without the keys of targets, and without what `target` returns."""
    targets: Any = None
    if target is not None:
        try:
            targets = target(batch)
        except Exception:  # noqa: BLE001 - a mini-batch for population values may have no targets
            targets = None
    kept = {
        key: part for key, part in batch.items() if key not in LABEL_KEYS and (targets is None or part is not targets)
    }
    return build_structure_of_same_type(batch, kept)
