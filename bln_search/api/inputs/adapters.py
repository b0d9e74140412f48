"""Loaders of any structure, and outputs of any structure, as the evaluation takes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.inputs.batch_forms import Target, call_network, find_inputs, find_targets
from bln_search.api.inputs.score import check_targets
from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.evaluation.adapted_network import AdaptedNetwork, Forward
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.independence import check_one_pass_inputs
from bln_search.evaluation.inputs import (
    Inputs,
    can_slice,
    describe_inputs,
    describe_value,
    plain_tensor,
    structured_inputs,
)
from bln_search.evaluation.row_evaluator import check_output
from bln_search.evaluation.scoring import Score, score_examples
from bln_search.norms.network.layers import evaluation_mode, find_norms, use_mini_batch_statistics

Loader = Iterable[Any]
"""Yields mini-batches, for instance a `DataLoader`."""

_OUTPUT_KEYS = ("logits", "out")
"""Keys or attributes of the tensor in an output: those of transformers, and of torchvision's segmentation."""


class BatchAdapter:
    """Turns mini-batches of loaders into inputs and targets, and calls the network with the inputs.

    Args:
        network: The network.
        forward: Called with the network, or a copy of it, and with a mini-batch; returns the outputs. None for the
            default: a tensor is the only argument, a list gives the arguments, a dictionary the keywords.
        target: Returns the targets in a mini-batch; None for the second of two parts, or the labels of a dictionary.
        device: To which mini-batches are copied.

    Attributes:
        network: Takes the inputs and returns one tensor; the network itself if it does so.
    """

    def __init__(
        self, network: nn.Module, forward: Forward | None, target: Target | None, device: torch.device
    ) -> None:
        for name, function in (("forward", forward), ("target", target)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} has the type {type(function).__name__}: give a function")
        self.network = network if forward is None else AdaptedNetwork(network, forward, _return_output)
        self.device = device
        self._original, self._forward, self._target = network, forward, target
        self._select: Callable[[Any], Any] | None = None
        self._is_structured = False

    def population_inputs(self, loader: Loader, name: str) -> Iterator[Inputs]:
        """Copies of the inputs of a loader, which may yield targets too."""
        for batch in _iterate(loader, name):
            yield self._inputs(batch, name)

    def input_target_pairs(self, loader: Loader, name: str, score: Score) -> Iterator[MiniBatch]:
        """Copies of a loader's mini-batches; the targets are checked if a named score takes only some."""
        for batch in _iterate(loader, name):
            inputs, targets = self._pair(batch, name)
            check_targets(score, targets, name)
            yield inputs, targets

    def check_population_loaders(self, loaders: Mapping[str, Loader], *, per_slot: bool) -> dict[str, Loader]:
        """Loaders with the same mini-batches, of which the first are checked.

        Args:
            loaders: The loaders by the name of the population.
            per_slot: Feature populations have a value for each slot of the mini-batch.

        Raises:
            DataError: There is no mini-batch, or it has no slots with `per_slot`.
        """
        return {
            name: self._check_population_loader(loader, population_argument_name(name, loaders), per_slot=per_slot)
            for name, loader in loaders.items()
        }

    def _check_population_loader(self, loader: Loader, name: str, *, per_slot: bool) -> Loader:
        peeked = _PeekedLoader(loader, name)
        if peeked.is_empty:
            raise DataError(f"{name} yields no mini-batch: population values need at least one")
        inputs = self._inputs(peeked.first, name)
        if per_slot and not can_slice(inputs):
            raise DataError(
                f"per_slot=True needs the examples on the first axis of every tensor; {name} yields "
                f"{describe_inputs(inputs)}: use per_slot=False"
            )
        return peeked

    def check_first_batch(self, loader: Loader, name: str, score: Score, *, one_pass: bool) -> Loader:
        """A loader with the same mini-batches; the network and the score are tried with the first one.

        The first call chooses the tensor in the output of the network.

        Raises:
            DataError: There is no mini-batch, or inputs or targets are missing or do not fit.
            ModelError: The output is not one tensor with a value for each example, or the one pass is not possible.
        """
        peeked = _PeekedLoader(loader, name)
        if peeked.is_empty:
            raise DataError(f"{name} yields no mini-batch")
        inputs, targets = self._pair(peeked.first, name)
        check_targets(score, targets, name)
        if one_pass:
            check_one_pass_inputs(inputs)
        with torch.no_grad():
            outputs = self._outputs(inputs, name)
            self._check_length(outputs, inputs)
            score_examples(score, outputs[: len(targets)], targets)
        return peeked

    def _inputs(self, batch: Any, name: str, targets: Tensor | None = None) -> Inputs:
        """A copy of the inputs of a mini-batch with these targets; None for a mini-batch without targets."""
        examples = None if targets is None else len(targets)
        is_default = self._forward is None
        value = find_inputs(batch, self._target, name, with_targets=targets is not None) if is_default else batch
        if isinstance(value, Tensor):
            _check_examples(value, name, examples)
            return plain_tensor(value).to(self.device, copy=True)
        self._is_structured = True
        inputs = structured_inputs(value, examples)
        lengths = {len(tensor) for tensor in inputs.tensors if tensor.ndim}
        if is_default and examples is not None and len(lengths) == 1 and examples not in lengths:
            raise DataError(f"{name} yields {lengths.pop()} inputs with {examples} targets")
        structure = copy.deepcopy(inputs.structure)
        return replace(
            inputs.map(lambda x: x.to(self.device, copy=True)), structure=_move_object_to_device(structure, self.device)
        )

    def _pair(self, batch: Any, name: str) -> MiniBatch:
        """Copies of inputs and targets of a mini-batch, because a loader may reuse its tensors."""
        targets = find_targets(batch, self._target, name)
        if not isinstance(targets, Tensor):
            if self._target is not None:
                raise DataError(f"target= returns {type(targets).__name__}: targets are a tensor, examples first")
            raise DataError(
                f"{name} must yield inputs and targets that are tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_value(batch)}"
            )
        _check_examples(targets, name)
        return self._inputs(batch, name, targets), plain_tensor(targets).to(self.device, copy=True)

    def _outputs(self, inputs: Inputs, name: str) -> Tensor:
        """Outputs of the network for inputs, with mini-batch statistics."""
        is_default = self._forward is None and not self._is_structured
        call = self._forward or call_network
        build = inputs.clone() if isinstance(inputs, Tensor) else inputs.clone().build()
        with evaluation_mode(self._original), use_mini_batch_statistics(find_norms(self._original).values()):
            try:
                output = call(self._original, build)
            except BlnSearchError:
                raise
            except Exception as error:
                if is_default:
                    raise
                caller = "forward=" if self._forward else "the network"
                hint = "" if self._forward else "; give forward=, which calls it with the parts that it takes"
                raise DataError(
                    f"{caller} failed for a mini-batch of {name} ({type(error).__name__}: {error}), which is "
                    f"{describe_inputs(inputs)}{hint}"
                ) from error
        if self._select is None:
            self._select = _make_output_selector(output, len(inputs))
            if not is_default or not isinstance(output, Tensor):
                self.network = AdaptedNetwork(self._original, call, self._select)
        return check_output(self._select(output))

    def _check_length(self, outputs: Tensor, inputs: Inputs) -> None:
        """Raise ModelError unless adapted outputs have one entry for each example."""
        if isinstance(self.network, AdaptedNetwork) and len(outputs) != len(inputs):
            raise ModelError(
                f"the network returns outputs of shape {tuple(outputs.shape)} for {len(inputs)} examples, "
                f"{describe_inputs(inputs)}: outputs need the examples on their first axis, as targets do"
            )


def population_argument_name(name: str, loaders: Mapping[str, Loader]) -> str:
    """The argument of a population's loader, for messages."""
    return "train_loader" if len(loaders) == 1 else f"train_loader[{name!r}]"


class _PeekedLoader:
    """A loader whose first mini-batch was read; its first iteration yields it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self._loader, self._name = loader, name
        self._iterator: Iterator[Any] | None = _iterate(loader, name)
        first = list(next(([batch] for batch in self._iterator), []))
        self.is_empty = not first
        self.first = first[0] if first else None

    def __iter__(self) -> Iterator[Any]:
        """Yield the mini-batches."""
        if self._iterator is None:
            yield from self._loader
            return
        iterator, first = self._iterator, self.first
        self._iterator = self.first = None
        yield first
        yield from iterator


def _iterate(loader: object, name: str) -> Iterator[Any]:
    """Iterate over a loader. Raises DataError where that is not possible."""
    try:
        return iter(loader)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise DataError(
            f"{name} has the type {type(loader).__name__}: it must yield mini-batches, as a "
            "torch.utils.data.DataLoader does"
        ) from None


def _check_examples(values: Tensor, name: str, examples: int | None = None) -> None:
    """Raise DataError unless the first axis holds examples, as many as there are targets where these are known."""
    if not values.ndim:
        raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
    if examples is not None and len(values) != examples:
        raise DataError(f"{name} yields {len(values)} inputs with {examples} targets")
    if len(values) == 0:
        raise DataError(f"{name} yields a mini-batch of 0 inputs")


def _move_object_to_device(structure: Any, device: torch.device) -> Any:
    """The structure with its objects on `device`, if they have a method `to`."""
    if isinstance(structure, Mapping | list | tuple) or not hasattr(structure, "to"):
        return structure
    return structure.to(device)


def _return_output(output: Any) -> Any:
    return output


def _make_output_selector(output: Any, examples: int) -> Callable[[Any], Any]:
    """A function that returns the tensor in an output like this one. Raises ModelError if there is none."""
    if isinstance(output, Tensor):
        return _return_output
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
