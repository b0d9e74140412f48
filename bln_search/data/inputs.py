"""Inputs of a mini-batch: one tensor, or a structure that contains tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import torch
from torch import Tensor


@dataclass(frozen=True)
class StructuredInputs:
    """Inputs in a structure of dictionaries, lists, tuples and dataclasses.

    Attributes:
        tensors: every tensor of the structure.
        structure: the structure with an index in place of each tensor.
        examples: the number of examples.
        examples_first: whether every tensor with axes has the examples on the first one. Such inputs can be sliced and
            concatenated, tensors without axes are constants.
    """

    tensors: tuple[Tensor, ...]
    structure: Any
    examples: int
    examples_first: bool

    def __len__(self) -> int:
        return self.examples

    @overload
    def __getitem__(self, index: str) -> Tensor: ...

    @overload
    def __getitem__(self, index: slice | Tensor) -> StructuredInputs: ...

    def __getitem__(self, index: str | slice | Tensor) -> StructuredInputs | Tensor:
        """Return the tensor of a name, or selected examples.

        Raises:
            TypeError: examples are not on the first axis of every tensor.
            KeyError: no tensor has this name.
        """
        if isinstance(index, str):
            tensor: Tensor = _fill_placeholders(self.structure[index], self.tensors)
            return tensor
        if not self.examples_first:
            raise TypeError("examples are not on the first axis of every tensor")
        examples = torch.arange(self.examples, device=self.device)[index].numel()
        return dataclasses.replace(self.map_tensors(lambda x: x[index] if x.ndim else x), examples=examples)

    @property
    def device(self) -> torch.device:
        """The device of the first tensor; the CPU where there is no tensor."""
        return self.tensors[0].device if self.tensors else torch.device("cpu")

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> StructuredInputs:
        """Apply a function to each tensor."""
        return dataclasses.replace(self, tensors=tuple(function(tensor) for tensor in self.tensors))

    def clone(self) -> StructuredInputs:
        """Return a copy with tensors and objects of its own."""
        return dataclasses.replace(self.map_tensors(Tensor.clone), structure=copy.deepcopy(self.structure))

    def iter_objects(self) -> Iterator[Any]:
        """Yield every part of the structure that contains no tensor, as far outside as possible."""
        yield from _iter_parts_without_tensors(self.structure)

    def build_structure(self) -> Any:
        """Return the structure with its tensors."""
        return _fill_placeholders(self.structure, self.tensors)


Inputs = Tensor | StructuredInputs
"""Inputs of the examples of a mini-batch."""

_I = TypeVar("_I", Tensor, StructuredInputs, Tensor | StructuredInputs)


@dataclass(frozen=True)
class _TensorPlaceholder:
    """Stands for a tensor in a structure."""

    index: int


def make_structured_inputs(value: Any, examples: int | None = None) -> StructuredInputs:
    """Return the inputs in `value`.

    Args:
        value: a structure that contains tensors, or an object.
        examples: the number of examples; None for the length of the first tensor with axes.
    """
    tensors: list[Tensor] = []
    structure = _take_tensors(value, tensors)
    lengths = {len(tensor) for tensor in tensors if tensor.ndim}
    if examples is None:
        examples = next((len(tensor) for tensor in tensors if tensor.ndim), 0)
    return StructuredInputs(
        tuple(tensors), structure, examples, lengths == {examples} and not _has_other_objects(structure)
    )


def remove_tensor_subclass(value: Tensor) -> Tensor:
    """Return a tensor without its subclass, as MONAI's MetaTensor, which copies and slices its metadata too.

    A subclass that has no storage of its own, as a nested or distributed tensor, stays as it is.
    """
    if type(value) is Tensor or type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return value
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(Tensor)


@overload
def map_tensors(function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor: ...


@overload
def map_tensors(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs: ...


def map_tensors(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """Apply a function to each tensor of `inputs`."""
    return function(inputs) if isinstance(inputs, Tensor) else inputs.map_tensors(function)


def concatenate_inputs(parts: Sequence[Inputs]) -> Inputs:
    """Return the inputs of all parts, which `have_same_form`, one after the other."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if tensors:
        return torch.cat(tensors)
    structured = [part for part in parts if isinstance(part, StructuredInputs)]
    columns = zip(*(part.tensors for part in structured), strict=True)
    joined = tuple(torch.cat(column) if column[0].ndim else column[0] for column in columns)
    return dataclasses.replace(structured[0], tensors=joined, examples=sum(map(len, structured)))


def have_same_form(first: Inputs, second: Inputs) -> bool:
    """Return whether inputs differ in the number and the values of their examples only, and may be concatenated."""
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return isinstance(first, Tensor) and isinstance(second, Tensor) and first.shape[1:] == second.shape[1:]
    return (
        first.examples_first
        and second.examples_first
        and len(first.tensors) == len(second.tensors)
        and _have_equal_types_and_constants(first.structure, second.structure)
        and all(map(_have_same_form, first.tensors, second.tensors))
    )


def can_append_examples(inputs: Inputs, first: Inputs) -> bool:
    """Return whether examples of `first` may follow those of `inputs`; constants may differ."""
    if isinstance(inputs, Tensor) or isinstance(first, Tensor):
        return have_same_form(inputs, first)
    return len(inputs.tensors) == len(first.tensors) and all(map(_have_same_form, inputs.tensors, first.tensors))


def have_same_shape(first: Inputs, second: Inputs) -> bool:
    """Return whether inputs `have_same_form` and the same number of examples."""
    return len(first) == len(second) and have_same_form(first, second)


def describe_example_shape(inputs: Inputs) -> str:
    """Return the shape of one example in words."""
    if isinstance(inputs, Tensor):
        return f"shape {tuple(inputs.shape[1:])}"
    return "shapes " + ", ".join(str(tuple(tensor.shape[1:])) for tensor in inputs.tensors)


def describe_inputs(inputs: Inputs) -> str:
    """Return the keys of inputs with the shapes of their tensors, and with the types of other parts, for messages."""
    return describe_value(inputs.build_structure() if isinstance(inputs, StructuredInputs) else inputs)


def describe_value(value: Any) -> str:
    """Return the keys of a structure with the shapes of its tensors, and with the types of other parts."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    fields = find_parts_of_structure(value)
    if fields is None:
        return type(value).__name__
    if isinstance(value, list | tuple):
        return f"({', '.join(map(describe_value, value))})"
    return f"{type(value).__name__}({', '.join(f'{key}: {describe_value(part)}' for key, part in fields.items())})"


def require_single_tensor(inputs: Inputs) -> Tensor:
    """Return inputs that are one tensor. Raises TypeError for a structure."""
    if isinstance(inputs, Tensor):
        return inputs
    raise TypeError("inputs in a structure cannot be traced")


def can_slice_examples(inputs: Inputs) -> bool:
    """Return whether examples are on the first axis of every tensor."""
    return isinstance(inputs, Tensor) or inputs.examples_first


def first_examples_if_sliceable(inputs: _I, examples: int) -> _I:
    """Return the first examples of `inputs`, or all where they cannot be sliced."""
    return inputs[:examples] if can_slice_examples(inputs) else inputs


def convert_to_double(inputs: _I) -> _I:
    """Convert floating-point tensors to double precision; token ids are unchanged.

    Raises:
        TypeError: the inputs contain other objects, whose tensors cannot be converted.
    """
    if isinstance(inputs, StructuredInputs) and _has_other_objects(inputs.structure):
        raise TypeError("the tensors of an object cannot be converted")
    return map_tensors(lambda x: x.double() if x.is_floating_point() else x, inputs)  # type: ignore[return-value]


def find_parts_of_structure(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a structure by their keys, positions or names; None for any other value."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def build_structure_of_same_type(value: Any, fields: Mapping[Any, Any]) -> Any:
    """Return a structure of the type of `value` with these parts."""
    if isinstance(value, Mapping):
        return _rebuild_mapping(value, dict(fields))
    if isinstance(value, list | tuple):
        make: Callable[[list[Any]], Any] = getattr(type(value), "_make", type(value))
        return make(list(fields.values()))
    duplicate = copy.copy(value)
    for name, part in fields.items():
        object.__setattr__(duplicate, name, part)
    return duplicate


def _rebuild_mapping(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    if type(value) is dict:
        return items
    try:
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:  # its constructor takes something else
        return items


def _take_tensors(value: Any, tensors: list[Tensor]) -> Any:
    """Append the tensors of `value` to `tensors`; return its structure."""
    if isinstance(value, Tensor):
        tensors.append(remove_tensor_subclass(value))
        return _TensorPlaceholder(len(tensors) - 1)
    fields = find_parts_of_structure(value)
    if fields is None:
        return value
    return build_structure_of_same_type(value, {key: _take_tensors(part, tensors) for key, part in fields.items()})


def _fill_placeholders(structure: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(structure, _TensorPlaceholder):
        return tensors[structure.index]
    fields = find_parts_of_structure(structure)
    if fields is None:
        return structure
    return build_structure_of_same_type(
        structure, {key: _fill_placeholders(part, tensors) for key, part in fields.items()}
    )


_CONSTANTS = (_TensorPlaceholder, str, bytes, bool, int, float, type(None))


def _has_other_objects(structure: Any) -> bool:
    """Return whether a structure contains an object that is neither a tensor nor a constant."""
    if isinstance(structure, _CONSTANTS):
        return False
    fields = find_parts_of_structure(structure)
    return True if fields is None else any(map(_has_other_objects, fields.values()))


def _iter_parts_without_tensors(structure: Any) -> Iterator[Any]:
    if not _has_tensor(structure):
        yield structure
        return
    for part in (find_parts_of_structure(structure) or {}).values():
        yield from _iter_parts_without_tensors(part)


def _has_tensor(structure: Any) -> bool:
    parts = find_parts_of_structure(structure) or {}
    return isinstance(structure, _TensorPlaceholder) or any(map(_has_tensor, parts.values()))


def _have_equal_types_and_constants(first: Any, second: Any) -> bool:
    """Return whether two structures have the same types, keys and constants."""
    fields, others = find_parts_of_structure(first), find_parts_of_structure(second)
    if type(first) is not type(second) or fields is None or others is None or fields.keys() != others.keys():
        return type(first) is type(second) and isinstance(first, _CONSTANTS) and bool(first == second)
    return all(_have_equal_types_and_constants(part, others[key]) for key, part in fields.items())


def _have_same_form(first: Tensor, second: Tensor) -> bool:
    if not first.ndim or not second.ndim:
        return torch.equal(first, second)
    return first.shape[1:] == second.shape[1:] and first.dtype == second.dtype


def copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the host on a device; the host does not wait until a GPU has copied it."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
