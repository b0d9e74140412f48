"""Inputs and targets in the mini-batches of a user's loader."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.inputs.forward_parameters import ForwardParameters
from bln_search.core.errors import DataError
from bln_search.data.inputs import build_structure_of_same_type, describe_value, find_parts_of_structure

Target = Callable[[Any], Tensor]
"""Returns the targets in a mini-batch of a loader."""

_Form = tuple[Any, list[tuple[int, ...]]]
"""Keys and kinds of a mini-batch, and the shapes of its examples in each tensor."""

LABEL_KEYS = ("labels", "label", "targets", "target")
"""Keys of the targets in a dictionary."""

_FORWARD_HINT = 'give forward=, as in forward=lambda model, batch: model(batch["x"], batch["mask"])'
_TARGET_HINT = 'give target=, as in target=lambda batch: batch["y"]'


class BatchForms:
    """Tells inputs from targets in mini-batches, by the parameters of the network's `forward`.

    A key that is a parameter of `forward` is an input, except an optional parameter for the loss. Pairs of a population
    are inputs and targets if the network has one input, or if validation yields pairs of this form.

    Args:
        network: The network.
        target: A function of the user that returns the targets; None for the second of two parts, or for the labels of
            a dictionary.
        has_forward: Whether a function of the user calls the network with whole mini-batches.
    """

    def __init__(self, network: nn.Module, target: Target | None, *, has_forward: bool) -> None:
        self._parameters = ForwardParameters.of_network(network)
        self._target, self._has_forward = target, has_forward
        self._labelled: tuple[_Form, _Form] | None = None
        self._split_pairs: dict[str, tuple[_Form, str]] = {}
        self._dropped: dict[str, str] = {}

    def learn_form_of_labelled_batches(self, batch: Any, name: str) -> None:
        """Note the form of mini-batches with targets, of which those of a population without targets are parts.

        Raises:
            DataError: Inputs or targets cannot be found, or a population was read in another form.
        """
        if self._labelled is not None or self._has_forward:
            return
        if self._target is None:
            self.extract_targets(batch, name)
        inputs = self.extract_inputs(batch, name, with_targets=True)
        self._labelled = _describe_form(inputs), _describe_form(batch)
        for population, (form, description) in self._split_pairs.items():
            if not _are_equal_forms(self._labelled[1], form):
                raise self._error_of_pair(description, population)
        keys = inputs.keys() if isinstance(inputs, Mapping) else ()
        for key in self._dropped.keys() & keys:
            raise DataError(
                f"{key} is an input in {name} and was taken for the targets in {self._dropped[key]}: {_FORWARD_HINT}"
            )

    def extract_targets(self, batch: Any, name: str) -> Any:
        """The targets in a mini-batch of the loader with this name.

        Raises:
            DataError: There are none, or several parts may be the targets.
        """
        if self._target is not None:
            try:
                return self._target(batch)
            except Exception as error:
                raise DataError(
                    f"target= failed for a mini-batch of {name} ({type(error).__name__}: {error}), which is "
                    f"{describe_value(batch)}"
                ) from error
        parts = self._find_named_parts(batch)
        if parts is not None:
            return parts[self._find_target_key(parts, batch, name)]
        if isinstance(batch, list | tuple) and len(batch) == 2:
            return batch[1]
        raise DataError(
            f"{name} must yield (inputs, targets), tensors with examples on the first axis, as a "
            f"torch.utils.data.DataLoader does, or a dictionary with labels; it yields {describe_value(batch)}: "
            f"{_TARGET_HINT}, and forward=, which calls the network"
        )

    def extract_inputs(self, batch: Any, name: str, *, with_targets: bool) -> Any:
        """The inputs in a mini-batch: a tensor, a dictionary of keywords, or a list of arguments.

        If it need not have targets, a tensor, or a list of one, is inputs alone.

        Raises:
            DataError: The mini-batch has another form, or its second part may be an input or the targets.
        """
        if isinstance(batch, Tensor):
            return batch
        parts = self._find_named_parts(batch)
        inputs: Any = None
        if parts is not None:
            inputs = self._keep_inputs(parts, batch, name, with_targets=with_targets)
        elif isinstance(batch, list | tuple):
            inputs = self._take_inputs_of_sequence(batch, name, with_targets=with_targets)
        if _is_accepted_network_input(inputs):
            return inputs
        wanted = "(inputs, targets)" if with_targets else "inputs, or (inputs, targets)"
        raise DataError(
            f"{name} must yield {wanted}, tensors with examples on the first axis, as a torch.utils.data.DataLoader "
            f"does, or a dictionary of tensors; it yields {describe_value(batch)}: {_FORWARD_HINT}"
        )

    def _find_named_parts(self, batch: Any) -> Mapping[Any, Any] | None:
        """The parts of a dictionary; of a named tuple or dataclass if each is an input of `forward` or a label."""
        if isinstance(batch, Mapping):
            return batch
        names = getattr(batch, "_fields", None)
        if names is None and not dataclasses.is_dataclass(batch):
            return None
        parts = dict(zip(names, batch, strict=True)) if names else find_parts_of_structure(batch) or {}
        return parts if self._parameters.inputs.union(LABEL_KEYS).issuperset(parts) else None

    def _find_target_key(self, parts: Mapping[Any, Any], batch: Any, name: str) -> str:
        """The only key of labels that is no input."""
        labels = [key for key in LABEL_KEYS if key in parts]
        if self._has_forward and len(labels) == 1:
            return labels[0]
        keys = [key for key in labels if key not in self._parameters.inputs]
        if len(keys) == 1:
            return keys[0]
        problem = f"several keys of targets, {', '.join(keys)}" if keys else f"none of the keys {', '.join(LABEL_KEYS)}"
        others = f" apart from the inputs of {self._parameters.call}" if not keys and labels else ""
        called = "" if others else f"; the network is {self._parameters.call}"
        raise DataError(
            f"{name} yields {describe_value(batch)}, which has {problem}{others}{called}: {_TARGET_HINT}, and forward= "
            "where another part is an input"
        )

    def _keep_inputs(self, parts: Mapping[Any, Any], batch: Any, name: str, *, with_targets: bool) -> Any:
        """The inputs by keyword, without the targets; the only input of a named tuple or dataclass alone."""
        is_inputs = self._labelled is not None and _are_equal_forms(self._labelled[0], _describe_form(parts))
        if not with_targets and is_inputs:
            dropped: set[str] = set()
        elif self._target is None:
            dropped = {key for key in LABEL_KEYS if key in parts and key not in self._parameters.inputs}
        else:
            dropped = self._find_parts_of_target(parts, batch)
        if not with_targets:
            self._dropped.update(dict.fromkeys(dropped, name))
        kept = {key: part for key, part in parts.items() if key not in dropped}
        if isinstance(batch, Mapping):
            return build_structure_of_same_type(batch, kept)
        is_first_alone = list(kept) == list(self._parameters.positional[:1])
        return next(iter(kept.values())) if is_first_alone else kept

    def _find_parts_of_target(self, parts: Mapping[Any, Any], batch: Any) -> set[str]:
        """The keys of the parts that are no inputs where `target=` returns the targets."""
        forward = self._parameters
        refused = {key for key in LABEL_KEYS if key in parts and not forward.accepts_keyword(key)}
        targets = _call_target(self._target, batch)
        if targets is None:  # a mini-batch for population values may have no targets
            return refused
        possible = [key for key in LABEL_KEYS if key in parts and key not in refused | forward.inputs]
        returned = {key for key, part in parts.items() if part is targets and key not in forward.required}
        return refused | returned | {key for key in possible if self._reads_target(key, parts, batch, targets)}

    def _reads_target(self, key: str, parts: Mapping[Any, Any], batch: Any, targets: Any) -> bool:
        """Whether `target=` returns something else without this part."""
        others = {name: part for name, part in parts.items() if name != key}
        if isinstance(batch, Mapping):
            without: Any = build_structure_of_same_type(batch, others)
        else:
            without = type("PartsWithoutOne", (), others)
        return not _are_equal_tensors(_call_target(self._target, without), targets)

    def _take_inputs_of_sequence(self, batch: Sequence[Any], name: str, *, with_targets: bool) -> Any:
        """The inputs in a list without names; None for another number of parts."""
        if not with_targets and len(batch) == 1:
            return batch[0]
        if not with_targets and self._are_all_inputs(batch):
            return batch
        if len(batch) != 2:
            return None
        are_tensors = isinstance(batch[0], Tensor) and isinstance(batch[1], Tensor)
        if are_tensors and self._parameters.most_positional > 1:
            self._check_second_part_is_target(batch, name, with_targets=with_targets)
        return batch[0]

    def _are_all_inputs(self, batch: Sequence[Any]) -> bool:
        """Whether a mini-batch is the inputs of validation, or has one part for each input that `forward` needs."""
        if self._labelled is not None and _are_equal_forms(self._labelled[0], _describe_form(batch)):
            return True
        are_tensors = all(isinstance(part, Tensor) for part in batch)
        return are_tensors and len(batch) == self._parameters.least_positional

    def _check_second_part_is_target(self, pair: Sequence[Tensor], name: str, *, with_targets: bool) -> None:
        """Raise DataError where the second of two tensors may be an input; that of a population is compared later."""
        if with_targets:
            is_unread = self._target is not None and _are_equal_tensors(
                _call_target(self._target, pair[:1]), _call_target(self._target, pair)
            )
            if is_unread:
                raise self._error_of_pair(describe_value(pair), name)
        elif self._labelled is None:
            self._split_pairs.setdefault(name, (_describe_form(pair), describe_value(pair)))
        elif not _are_equal_forms(self._labelled[1], _describe_form(pair)):
            raise self._error_of_pair(describe_value(pair), name)

    def _error_of_pair(self, pair: str, name: str) -> DataError:
        return DataError(
            f"{name} yields {pair}, and the network {self._parameters.call} takes more than one input: whether the "
            "second part is an input or the targets is ambiguous, because validation mini-batches have another form: "
            "give ((x, second),) for two inputs, (x,) for one, or forward= and target=, as in "
            "forward=lambda model, batch: model(batch[0], batch[1])"
        )


def _is_accepted_network_input(inputs: Any) -> bool:
    """Whether `inputs` is a tensor, a dictionary with a tensor, or a list that begins with one."""
    if isinstance(inputs, Mapping):
        return all(isinstance(key, str) for key in inputs) and any(isinstance(part, Tensor) for part in inputs.values())
    return isinstance(inputs, Tensor) or (
        isinstance(inputs, list | tuple) and bool(inputs) and isinstance(inputs[0], Tensor)
    )


def _call_target(target: Target | None, batch: Any) -> Any:
    """What `target=` returns; None where it fails."""
    try:
        return None if target is None else target(batch)
    except Exception:  # noqa: BLE001 - whatever a function of the user raises
        return None


def _are_equal_tensors(first: Any, second: Any) -> bool:
    return isinstance(first, Tensor) and isinstance(second, Tensor) and torch.equal(first, second)


def _describe_form(value: Any) -> _Form:
    """What mini-batches of one kind have in common: keys, number of parts, kinds of tensors, shapes of examples."""
    shapes: list[tuple[int, ...]] = []
    return _describe_kinds(value, shapes), shapes


def _describe_kinds(value: Any, shapes: list[tuple[int, ...]]) -> Any:
    """Keys, number of parts, kinds and numbers of axes; the shapes of examples are appended to `shapes`."""
    if isinstance(value, Tensor):
        shapes.append(tuple(value.shape[1:]))
        return value.is_floating_point() or value.is_complex(), value.ndim
    if isinstance(value, Mapping):
        return frozenset(value)
    if isinstance(value, list | tuple):
        return tuple(_describe_kinds(part, shapes) for part in value)
    return type(value)


def _are_equal_forms(first: _Form, second: _Form) -> bool:
    """Whether forms are equal. A size of the first tensor, as a sequence length, may differ, and then in the others."""
    if first[0] != second[0]:
        return False
    sizes = [set(zip(*shapes, strict=True)) for shapes in zip(first[1], second[1], strict=True)]
    return all(size == other for size, other in set().union(*sizes) - (sizes[0] if sizes else set()))
