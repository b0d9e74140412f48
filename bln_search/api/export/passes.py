"""The example inputs and the named outputs of an exported network: tensors with examples on the first axis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.core.errors import DataError, ExportError


@dataclass(frozen=True)
class ExampleInputs:
    """The arguments of a forward pass: positional ones, or named ones.

    Attributes:
        positional: Tensors (N, ...).
        named: Tensors (N, ...) by the name of their argument.
        names: A name for each tensor, in order.
    """

    positional: tuple[Tensor, ...]
    named: Mapping[str, Tensor]
    names: tuple[str, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in order."""
        return *self.positional, *self.named.values()

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.tensors[0])

    def with_num_examples(self, size: int) -> ExampleInputs:
        """The first `size` examples, repeated if there are fewer."""
        rows = torch.arange(size) % self.num_examples
        return self._map_tensors(lambda tensor: tensor[rows])

    def call_with_copies(self, function: Callable[..., Any]) -> Any:
        """Call `function` with copies of the tensors, which it may overwrite."""
        copies = self._map_tensors(torch.clone)
        return function(*copies.positional, **copies.named)

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> ExampleInputs:
        named = {name: change(tensor) for name, tensor in self.named.items()}
        return ExampleInputs(tuple(map(change, self.positional)), named, self.names)


def parse_example_inputs(value: object, network: nn.Module) -> ExampleInputs:
    """The example inputs of a user as copies on the CPU: a tensor, several, or tensors by the name of an argument.

    Raises:
        DataError: It consists of something else than tensors with the same number of examples on the first axis.
    """
    parts: dict[str, Any]
    if isinstance(value, Tensor):
        parts = {"inputs": value}
    elif isinstance(value, Mapping):
        parts = dict(value)
    elif isinstance(value, tuple | list):
        parts = dict(zip(_forward_argument_names(network, len(value)), value, strict=True))
    else:
        raise DataError(
            f"example_inputs has the type {type(value).__name__}: give a tensor with a few examples on the first axis, "
            "a tuple of tensors, or a dict of tensors by argument"
        )
    if not parts:
        raise DataError("example_inputs is empty: give a few examples")
    for name, part in parts.items():
        if not isinstance(part, Tensor):
            raise DataError(
                f"example_inputs has a {type(part).__name__} as {name}: an exported network has tensors as inputs; "
                "wrap the network so that the forward pass takes tensors alone"
            )
        if not part.ndim or not len(part):
            raise DataError(f"example_inputs has no example in {name}: examples are on the first axis")
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"the example_inputs have different numbers of examples on the first axis: {text}")
    tensors = {str(name): part.detach().to("cpu", copy=True) for name, part in parts.items()}
    is_named = isinstance(value, Mapping)
    return ExampleInputs(() if is_named else tuple(tensors.values()), tensors if is_named else {}, tuple(tensors))


def _forward_argument_names(network: nn.Module, count: int) -> list[str]:
    """Names of the first `count` arguments of the forward pass; numbers after those that have a name."""
    parameters = inspect.signature(network.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[index] if index < len(names) else f"inputs_{index}" for index in range(count)]


def flatten_outputs_by_name(outputs: Any, name: str = "outputs") -> dict[str, Tensor]:
    """The tensors of the outputs in order, by name: `name` for one tensor, else the keys and positions that lead to it.

    Raises:
        ExportError: The outputs contain something else than tensors in tuples, lists and dictionaries.
    """
    return {name: outputs} if isinstance(outputs, Tensor) else dict(_iter_named_tensor_leaves(outputs, ""))


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
