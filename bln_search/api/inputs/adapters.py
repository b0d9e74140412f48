"""Loaders of any structure, and outputs of any structure, as the evaluation takes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.inputs.batch_forms import (
    Target,
    call_network_with_unpacked_inputs,
    extract_inputs_from_batch,
    extract_targets_from_batch,
)
from bln_search.api.inputs.output_selection import make_output_tensor_selector, return_output_unchanged
from bln_search.api.inputs.peeked_loader import Loader, PeekedLoader, start_loader_iteration
from bln_search.api.inputs.score import check_targets_fit_score
from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.data.inputs import (
    Inputs,
    can_slice_examples,
    describe_inputs,
    describe_value,
    make_structured_inputs,
    remove_tensor_subclass,
)
from bln_search.evaluation.adapted_network import Forward, NetworkWithCallAdapter
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.independence import check_one_pass_inputs
from bln_search.evaluation.row_evaluator import require_output_tensor
from bln_search.evaluation.scoring import score_examples
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, use_training_sources_in_evaluation
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score


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
        self.network = network if forward is None else NetworkWithCallAdapter(network, forward, return_output_unchanged)
        self.device = device
        self._original, self._forward, self._target = network, forward, target
        self._select: Callable[[Any], Any] | None = None
        self._is_structured = False
        self._classes: int | None = None
        self._axes: int | None = None

    def iter_population_inputs(self, loader: Loader, name: str) -> Iterator[Inputs]:
        """Copies of the inputs of a loader, which may yield targets too."""
        for batch in start_loader_iteration(loader, name):
            yield self._copy_inputs_of_batch(batch, name)

    def iter_input_target_pairs(self, loader: Loader, name: str, score: Score) -> Iterator[MiniBatch]:
        """Copies of a loader's mini-batches; the targets are checked if a named score takes only some."""
        for batch in start_loader_iteration(loader, name):
            inputs, targets = self._copy_inputs_and_targets(batch, name)
            check_targets_fit_score(score, targets, name, classes=self._classes)
            yield inputs, targets

    def count_targets_until_enough(self, loader: PeekedLoader, enough: int) -> int:
        """The number of examples of a loader, or `enough` of them if it has more; its first mini-batches are read."""
        return loader.count_examples_until_enough(
            enough, lambda batch: len(self._get_targets_of_batch(batch, loader.name))
        )

    def check_form_of_first_population_batch(self, loader: PeekedLoader, *, per_slot: bool) -> None:
        """Check the form of the first mini-batch of a population; the network is not called.

        Raises:
            DataError: It has no inputs, or no slots with `per_slot`.
        """
        inputs = self._copy_inputs_of_batch(loader.first_batch, loader.name)
        if per_slot and not can_slice_examples(inputs):
            raise DataError(
                f"per_slot=True needs the examples on the first axis of every tensor; {loader.name} yields "
                f"{describe_inputs(inputs)}: use per_slot=False"
            )

    @torch.no_grad()
    def try_network_on_first_population_batch(self, loader: PeekedLoader) -> None:
        """Try the network with the first mini-batch of a population, after that of a split was tried.

        Raises:
            DataError: The network cannot be called with it, or its inputs and outputs are not numbers.
        """
        inputs = self._copy_inputs_of_batch(loader.first_batch, loader.name)
        if isinstance(inputs, Tensor) and self._axes not in (None, inputs.ndim):
            raise DataError(
                f"{loader.name} yields inputs of shape {tuple(inputs.shape)}, and the validation data have "
                f"{self._axes} axes: give mini-batches of the same kind; put a data set into a "
                "torch.utils.data.DataLoader"
            )
        _check_no_nan_inputs_and_outputs(inputs, self._run_network_on_inputs(inputs, loader.name), loader.name)

    @torch.no_grad()
    def try_network_and_score_on_first_batch(self, loader: PeekedLoader, score: Score, *, one_pass: bool) -> None:
        """Try the network and the score with the first mini-batch of a split.

        The first call chooses the tensor in the output of the network.

        Raises:
            DataError: Inputs or targets are missing or do not fit.
            ModelError: The output is not one tensor with a value for each example, or the one pass is not possible.
        """
        name = loader.name
        inputs, targets = self._copy_inputs_and_targets(loader.first_batch, name)
        check_targets_fit_score(score, targets, name)
        if one_pass:
            check_one_pass_inputs(inputs)
        outputs = self._run_network_on_inputs(inputs, name)
        self._check_one_output_per_example(outputs, inputs)
        _check_no_nan_inputs_and_outputs(inputs, outputs, name)
        score_examples(score, outputs[: len(targets)], targets)
        self._axes = inputs.ndim if isinstance(inputs, Tensor) else None
        if score is cross_entropy_and_correctness:
            self._classes = outputs.shape[1]

    def _copy_inputs_of_batch(self, batch: Any, name: str, targets: Tensor | None = None) -> Inputs:
        """A copy of the inputs of a mini-batch with these targets; None for a mini-batch without targets."""
        examples = None if targets is None else len(targets)
        is_default = self._forward is None
        value = (
            extract_inputs_from_batch(batch, self._target, name, with_targets=targets is not None)
            if is_default
            else batch
        )
        if isinstance(value, Tensor):
            _check_example_axis(value, name, examples)
            return remove_tensor_subclass(value).to(self.device, copy=True)
        self._is_structured = True
        inputs = make_structured_inputs(value, examples)
        lengths = {len(tensor) for tensor in inputs.tensors if tensor.ndim}
        if is_default and examples is not None and len(lengths) == 1 and examples not in lengths:
            raise DataError(f"{name} yields {lengths.pop()} inputs with {examples} targets")
        structure = copy.deepcopy(inputs.structure)
        return replace(
            inputs.map_tensors(lambda x: x.to(self.device, copy=True)),
            structure=_move_object_to_device(structure, self.device),
        )

    def _copy_inputs_and_targets(self, batch: Any, name: str) -> MiniBatch:
        """Copies of inputs and targets of a mini-batch, because a loader may reuse its tensors."""
        targets = self._get_targets_of_batch(batch, name)
        return self._copy_inputs_of_batch(batch, name, targets), remove_tensor_subclass(targets).to(
            self.device, copy=True
        )

    def _get_targets_of_batch(self, batch: Any, name: str) -> Tensor:
        """The targets of a mini-batch. Raises DataError unless they are a tensor with examples."""
        targets = extract_targets_from_batch(batch, self._target, name)
        if not isinstance(targets, Tensor):
            if self._target is not None:
                raise DataError(f"target= returns {type(targets).__name__}: targets are a tensor, examples first")
            raise DataError(
                f"{name} must yield inputs and targets that are tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_value(batch)}"
            )
        _check_example_axis(targets, name)
        return targets

    def _run_network_on_inputs(self, inputs: Inputs, name: str) -> Tensor:
        """Outputs of the network for inputs, with mini-batch statistics."""
        call = self._forward or call_network_with_unpacked_inputs
        needs_forward = self._forward is None and self._is_structured
        build = inputs.clone() if isinstance(inputs, Tensor) else inputs.clone().build_structure()
        with (
            evaluation_mode(self._original),
            use_training_sources_in_evaluation(get_norms_by_name(self._original).values()),
        ):
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
            self._select = make_output_tensor_selector(output, len(inputs))
            if self._forward is not None or self._is_structured or not isinstance(output, Tensor):
                self.network = NetworkWithCallAdapter(self._original, call, self._select)
        return require_output_tensor(self._select(output))

    def _check_one_output_per_example(self, outputs: Tensor, inputs: Inputs) -> None:
        """Raise ModelError unless adapted outputs have one entry for each example."""
        if isinstance(self.network, NetworkWithCallAdapter) and len(outputs) != len(inputs):
            raise ModelError(
                f"the network returns outputs of shape {tuple(outputs.shape)} for {len(inputs)} examples, "
                f"{describe_inputs(inputs)}: outputs need the examples on their first axis, as targets do"
            )


def _check_example_axis(values: Tensor, name: str, examples: int | None = None) -> None:
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


def _check_no_nan_inputs_and_outputs(inputs: Inputs, outputs: Tensor, name: str) -> None:
    """Raise DataError if inputs and outputs have NaN: a network may handle missing inputs itself."""
    tensors = [inputs] if isinstance(inputs, Tensor) else inputs.tensors
    if outputs.isnan().any() and any(tensor.isnan().any() for tensor in tensors):
        raise DataError(
            f"{name} yields inputs with NaN, and the network returns NaN for them: replace missing values, or leave "
            "these examples out"
        )
