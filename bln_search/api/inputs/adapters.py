"""Loaders of any structure, and outputs of any structure, as the evaluation takes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.inputs.batch_forms import Target, find_inputs, find_targets, unpack_and_call
from bln_search.api.inputs.output_selection import make_output_selector, return_output
from bln_search.api.inputs.peeked_loader import Loader, PeekedLoader, iterate_loader
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
from bln_search.evaluation.scoring import Score, cross_entropy, score_examples
from bln_search.norms.network.layers import evaluation_mode, find_norms, use_mini_batch_statistics


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
        self.network = network if forward is None else AdaptedNetwork(network, forward, return_output)
        self.device = device
        self._original, self._forward, self._target = network, forward, target
        self._select: Callable[[Any], Any] | None = None
        self._is_structured = False
        self._classes: int | None = None
        self._axes: int | None = None

    def population_inputs(self, loader: Loader, name: str) -> Iterator[Inputs]:
        """Copies of the inputs of a loader, which may yield targets too."""
        for batch in iterate_loader(loader, name):
            yield self._inputs(batch, name)

    def input_target_pairs(self, loader: Loader, name: str, score: Score) -> Iterator[MiniBatch]:
        """Copies of a loader's mini-batches; the targets are checked if a named score takes only some."""
        for batch in iterate_loader(loader, name):
            inputs, targets = self._pair(batch, name)
            check_targets(score, targets, name, classes=self._classes)
            yield inputs, targets

    def count_targets(self, loader: PeekedLoader, enough: int) -> int:
        """The number of examples of a loader, or `enough` of them if it has more; its first mini-batches are read."""
        return loader.count_examples(enough, lambda batch: len(self._targets(batch, loader.name)))

    def check_population_form(self, loader: PeekedLoader, *, per_slot: bool) -> None:
        """Check the form of the first mini-batch of a population; the network is not called.

        Raises:
            DataError: It has no inputs, or no slots with `per_slot`.
        """
        inputs = self._inputs(loader.first, loader.name)
        if per_slot and not can_slice(inputs):
            raise DataError(
                f"per_slot=True needs the examples on the first axis of every tensor; {loader.name} yields "
                f"{describe_inputs(inputs)}: use per_slot=False"
            )

    @torch.no_grad()
    def check_population(self, loader: PeekedLoader) -> None:
        """Try the network with the first mini-batch of a population, after `check_first_batch` of a split.

        Raises:
            DataError: The network cannot be called with it, or its inputs and outputs are not numbers.
        """
        inputs = self._inputs(loader.first, loader.name)
        if isinstance(inputs, Tensor) and self._axes not in (None, inputs.ndim):
            raise DataError(
                f"{loader.name} yields inputs of shape {tuple(inputs.shape)}, and the validation data have "
                f"{self._axes} axes: give mini-batches of the same kind; put a data set into a "
                "torch.utils.data.DataLoader"
            )
        _check_numbers(inputs, self._outputs(inputs, loader.name), loader.name)

    @torch.no_grad()
    def check_first_batch(self, loader: PeekedLoader, score: Score, *, one_pass: bool) -> None:
        """Try the network and the score with the first mini-batch of a split.

        The first call chooses the tensor in the output of the network.

        Raises:
            DataError: Inputs or targets are missing or do not fit.
            ModelError: The output is not one tensor with a value for each example, or the one pass is not possible.
        """
        name = loader.name
        inputs, targets = self._pair(loader.first, name)
        check_targets(score, targets, name)
        if one_pass:
            check_one_pass_inputs(inputs)
        outputs = self._outputs(inputs, name)
        self._check_length(outputs, inputs)
        _check_numbers(inputs, outputs, name)
        score_examples(score, outputs[: len(targets)], targets)
        self._axes = inputs.ndim if isinstance(inputs, Tensor) else None
        if score is cross_entropy:
            self._classes = outputs.shape[1]

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
        targets = self._targets(batch, name)
        return self._inputs(batch, name, targets), plain_tensor(targets).to(self.device, copy=True)

    def _targets(self, batch: Any, name: str) -> Tensor:
        """The targets of a mini-batch. Raises DataError unless they are a tensor with examples."""
        targets = find_targets(batch, self._target, name)
        if not isinstance(targets, Tensor):
            if self._target is not None:
                raise DataError(f"target= returns {type(targets).__name__}: targets are a tensor, examples first")
            raise DataError(
                f"{name} must yield inputs and targets that are tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_value(batch)}"
            )
        _check_examples(targets, name)
        return targets

    def _outputs(self, inputs: Inputs, name: str) -> Tensor:
        """Outputs of the network for inputs, with mini-batch statistics."""
        call = self._forward or unpack_and_call
        needs_forward = self._forward is None and self._is_structured
        build = inputs.clone() if isinstance(inputs, Tensor) else inputs.clone().build()
        with evaluation_mode(self._original), use_mini_batch_statistics(find_norms(self._original).values()):
            try:
                output = call(self._original, build)
            except (BlnSearchError, torch.OutOfMemoryError):
                raise
            except Exception as error:
                caller = "forward=" if self._forward else "the network"
                hint = "; give forward=, which calls it with the parts that it takes" if needs_forward else ""
                raise DataError(
                    f"{caller} failed for a mini-batch of {name} ({type(error).__name__}: {error}), which is "
                    f"{describe_inputs(inputs)}{hint}"
                ) from error
        if self._select is None:
            self._select = make_output_selector(output, len(inputs))
            if self._forward is not None or self._is_structured or not isinstance(output, Tensor):
                self.network = AdaptedNetwork(self._original, call, self._select)
        return check_output(self._select(output))

    def _check_length(self, outputs: Tensor, inputs: Inputs) -> None:
        """Raise ModelError unless adapted outputs have one entry for each example."""
        if isinstance(self.network, AdaptedNetwork) and len(outputs) != len(inputs):
            raise ModelError(
                f"the network returns outputs of shape {tuple(outputs.shape)} for {len(inputs)} examples, "
                f"{describe_inputs(inputs)}: outputs need the examples on their first axis, as targets do"
            )


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


def _check_numbers(inputs: Inputs, outputs: Tensor, name: str) -> None:
    """Raise DataError if inputs and outputs have NaN: a network may handle missing inputs itself."""
    tensors = [inputs] if isinstance(inputs, Tensor) else inputs.tensors
    if outputs.isnan().any() and any(tensor.isnan().any() for tensor in tensors):
        raise DataError(
            f"{name} yields inputs with NaN, and the network returns NaN for them: replace missing values, or leave "
            "these examples out"
        )
