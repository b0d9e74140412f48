"""Loaders of any structure, and outputs of any structure, as the evaluation takes them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.inputs.batch_forms import BatchForms, Target
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.inputs.network_calls import NetworkCaller, find_value_that_is_not_finite, is_finite, list_tensors
from bln_search.api.inputs.score import check_targets_fit_score
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.errors import DataError, ModelError
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
from bln_search.evaluation.scoring import score_examples
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score


class BatchAdapter:
    """Turns mini-batches of loaders into inputs and targets, and calls the network with the inputs.

    Args:
        network: The network.
        forward: As of `NetworkCaller`.
        target: Returns the targets in a mini-batch; None for the second of two parts, or the label key of a dictionary
            that is no input of the network.
        device: To which mini-batches are copied.
        progress: Counts the mini-batches of each reading; None for no lines of progress.
        needs_one_pass: Mini-batches of splits must fit the one pass.
        needs_slots: Mini-batches of populations must have the examples on the first axis.

    Attributes:
        caller: Calls the network.
        not_finite_note: The first mini-batch of the split that is read whose inputs are not finite; None without one.
    """

    def __init__(
        self,
        network: nn.Module,
        forward: Forward | None,
        target: Target | None,
        device: torch.device,
        progress: ProgressLines | None = None,
        *,
        needs_one_pass: bool = False,
        needs_slots: bool = False,
    ) -> None:
        for name, function in (("forward", forward), ("target", target)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} has the type {type(function).__name__}: give a function")
        self.caller, self.device = NetworkCaller(network, forward), device
        self._has_forward, self._target = forward is not None, target
        self._forms = BatchForms(network, target, has_forward=self._has_forward)
        self._classes: int | None = None
        self._axes: int | None = None
        self.progress = progress or ProgressLines(enabled=False)
        self._needs_one_pass, self._needs_slots = needs_one_pass, needs_slots
        self.not_finite_note: str | None = None

    @property
    def network(self) -> nn.Module:
        """Takes the inputs and returns one tensor; the network itself if it does so."""
        return self.caller.network

    @torch.no_grad()
    def try_samples(self, splits: Iterable[RoleLoader], populations: Iterable[RoleLoader], score: Score) -> None:
        """Try the network and the score with a mini-batch of each loader, if one can be read in advance.

        Those of populations may have no targets. The first one of any other loader is tried when its reading begins.

        Raises:
            DataError: A mini-batch does not fit the network or the score.
            ModelError: The output is not one tensor with a value for each example, or the one pass is not possible.
        """
        of_splits = [loader for loader in splits if loader.sample_batch is not None]
        of_populations = [loader for loader in populations if loader.sample_batch is not None]
        for loader in of_splits:
            self._forms.learn_form_of_labelled_batches(loader.sample_batch, loader.name)
        for loader in of_populations:
            self._check_slots(self._copy_inputs(loader.sample_batch, loader.name), loader.name)
        for loader in of_splits:
            inputs, targets = self._copy_inputs_and_targets(loader.sample_batch, loader.name)
            self._try_network_and_score(inputs, targets, loader.name, score)
        for loader in of_populations:
            self._try_network(self._copy_inputs(loader.sample_batch, loader.name), loader.name)

    def iter_population_inputs(self, loader: RoleLoader) -> Iterator[Inputs]:
        """Copies of the inputs of a loader, which may yield targets too. The first mini-batch is read and checked now.

        Raises:
            DataError: The loader yields no mini-batch, or one that does not fit the network.
        """
        inputs = self._iter_population_inputs(loader)
        return chain([next(inputs)], inputs)

    def _iter_population_inputs(self, loader: RoleLoader) -> Iterator[Inputs]:
        examples = 0
        for number, (name, batch) in enumerate(self._iter_named_batches(loader)):
            inputs = self._copy_inputs(batch, name)
            if number == 0 and loader.sample_batch is None:
                self._check_slots(inputs, loader.name)
                self._try_network(inputs, loader.name)
            elif number and find_value_that_is_not_finite(inputs) is not None:
                self._check_finite(inputs, name)
            self._note_reading(name, inputs)
            examples += len(inputs)
            yield inputs
        loader.end_reading(examples)

    def iter_input_target_pairs(self, loader: RoleLoader, score: Score) -> Iterator[MiniBatch]:
        """Copies of a loader's mini-batches. The first one is read and checked now.

        Raises:
            DataError: The loader yields no mini-batch, or one that does not fit the network or the score.
            ModelError: The network returns something else than outputs of the examples.
        """
        pairs = self._iter_input_target_pairs(loader, score)
        return chain([next(pairs)], pairs)

    def _iter_input_target_pairs(self, loader: RoleLoader, score: Score) -> Iterator[MiniBatch]:
        self.not_finite_note = None
        examples = 0
        for number, (name, batch) in enumerate(self._iter_named_batches(loader)):
            if number == 0:
                self._forms.learn_form_of_labelled_batches(batch, loader.name)
            inputs, targets = self._copy_inputs_and_targets(batch, name)
            if self.not_finite_note is None:  # a network may handle such inputs
                place = find_value_that_is_not_finite(inputs)
                self.not_finite_note = None if place is None else f"{name} has inputs with {place}"
            if number:
                check_targets_fit_score(score, targets, loader.name, classes=self._classes)
            elif loader.sample_batch is None:
                self._try_network_and_score(inputs, targets, loader.name, score)
            self._note_reading(name, inputs)
            loader.record_examples(inputs, targets, examples)
            examples += len(targets)
            yield inputs, targets
        loader.end_reading(examples)

    def _iter_named_batches(self, loader: RoleLoader) -> Iterator[tuple[str, Any]]:
        """Yield the mini-batches of a loader with their names for messages."""
        self.caller.latest.clear()
        loader.start_reading()
        self.progress.start_part(loader.name, "mini-batches", loader.count_batches())
        for number, batch in enumerate(loader):
            yield f"mini-batch {number} (counted from 0) of {loader.name}", batch

    def _note_reading(self, name: str, inputs: Inputs) -> None:
        self.caller.latest.append(name, inputs)
        self.progress.advance()

    def count_targets_of_list(self, loader: RoleLoader) -> int | None:
        """The number of examples of a list of mini-batches, or of a loader that makes them of a sampler's indices."""
        if isinstance(loader.loader, list | tuple):
            return sum(len(self._get_targets(batch, loader.name)) for batch in loader.loader)
        if loader.sample_batch is None or getattr(loader.loader, "batch_size", None) is None:
            return None
        indices, size = len(loader.loader.sampler), loader.loader.batch_size  # type: ignore[attr-defined]
        is_example_of_index = len(self._get_targets(loader.sample_batch, loader.name)) == min(indices, size)
        return indices if is_example_of_index and not loader.loader.drop_last else None  # type: ignore[attr-defined]

    @torch.no_grad()
    def iter_outputs_and_targets(self, batches: Iterable[MiniBatch], loader: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield outputs with mini-batch statistics, and targets, of mini-batches. loader: their argument's name."""
        for number, (inputs, targets) in enumerate(batches):
            name = f"mini-batch {number} (counted from 0) of {loader}"
            yield self.caller.run(inputs, name)[: len(targets)], targets

    def _check_slots(self, inputs: Inputs, name: str) -> None:
        """Raise DataError where slots are needed and examples are not on the first axis."""
        if self._needs_slots and not can_slice_examples(inputs):
            raise DataError(
                f"per_slot=True needs the examples on the first axis of every tensor; {name} yields "
                f"{describe_inputs(inputs)}: use per_slot=False"
            )

    def _try_network(self, inputs: Inputs, name: str) -> None:
        """Raise DataError for inputs of a population that the network does not take."""
        if isinstance(inputs, Tensor) and self._axes not in (None, inputs.ndim):
            raise DataError(
                f"{name} yields inputs of shape {tuple(inputs.shape)}, and the validation data have "
                f"{self._axes} axes: give mini-batches of the same kind; put a data set into a "
                "torch.utils.data.DataLoader"
            )
        self._check_finite(inputs, name)

    @torch.no_grad()
    def _try_network_and_score(self, inputs: Inputs, targets: Tensor, name: str, score: Score) -> None:
        """Try network and score with a mini-batch. The first call chooses the tensor in the network's output."""
        check_targets_fit_score(score, targets, name)
        if self._needs_one_pass:
            check_one_pass_inputs(inputs)
        outputs = self.caller.run(inputs, name)
        if isinstance(self.network, NetworkWithCallAdapter) and len(outputs) != len(inputs):
            raise ModelError(
                f"the network returns outputs of shape {tuple(outputs.shape)} for {len(inputs)} examples, "
                f"{describe_inputs(inputs)}: outputs need the examples on their first axis, as targets do"
            )
        if outputs.isnan().any() and any(x.isnan().any() for x in list_tensors(inputs)):
            self._check_finite(inputs, name, outputs)
        score_examples(score, outputs[: len(targets)], targets)
        self._axes = inputs.ndim if isinstance(inputs, Tensor) else None
        if score is cross_entropy_and_correctness:
            if self._classes is None and _are_probabilities(outputs):
                warnings.warn(
                    "the outputs of the network seem to be probabilities, and cross-entropy takes logits: let the "
                    "network return the values before softmax, or give a score= of probabilities",
                    stacklevel=2,
                )
            self._classes = outputs.shape[1]

    @torch.no_grad()
    def _check_finite(self, inputs: Inputs, name: str, outputs: Tensor | None = None) -> None:
        """Raise DataError if neither inputs nor outputs are finite: a network may handle missing inputs itself."""
        outputs = self.caller.run(inputs, name) if outputs is None else outputs
        place = None if is_finite(outputs) else find_value_that_is_not_finite(inputs)
        if place is not None:
            raise DataError(
                f"{name} yields inputs with {place}, and the network's outputs for them are not finite: replace these "
                "values, or leave the examples out"
            )

    def _copy_inputs(self, batch: Any, name: str, targets: Tensor | None = None) -> Inputs:
        """A copy of the inputs of a mini-batch with these targets; None for a mini-batch without targets."""
        examples = None if targets is None else len(targets)
        is_default = not self._has_forward
        value = self._forms.extract_inputs(batch, name, with_targets=targets is not None) if is_default else batch
        if isinstance(value, Tensor):
            _check_example_axis(value, name, examples)
            return remove_tensor_subclass(value).to(self.device, copy=True)
        self.caller.is_structured = True
        inputs = make_structured_inputs(value, examples)
        lengths = {len(tensor) for tensor in inputs.tensors if tensor.ndim}
        if is_default and examples is not None and len(lengths) == 1 and examples not in lengths:
            raise DataError(f"{name} yields {lengths.pop()} inputs with {examples} targets")
        structure = copy.deepcopy(inputs.structure)
        if not isinstance(structure, Mapping | list | tuple) and hasattr(structure, "to"):
            structure = structure.to(self.device)  # an object with tensors of its own
        return replace(inputs.map_tensors(lambda x: x.to(self.device, copy=True)), structure=structure)

    def _copy_inputs_and_targets(self, batch: Any, name: str) -> MiniBatch:
        """Copies of inputs and targets of a mini-batch, because a loader may reuse its tensors."""
        targets = self._get_targets(batch, name)
        inputs = self._copy_inputs(batch, name, targets)
        return inputs, remove_tensor_subclass(targets).to(self.device, copy=True)

    def _get_targets(self, batch: Any, name: str) -> Tensor:
        """The targets of a mini-batch. Raises DataError unless they are a tensor with examples."""
        targets = self._forms.extract_targets(batch, name)
        if not isinstance(targets, Tensor):
            if self._target is not None:
                raise DataError(f"target= returns {type(targets).__name__}: targets are a tensor, examples first")
            raise DataError(
                f"{name} must yield inputs and targets that are tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_value(batch)}"
            )
        _check_example_axis(targets, name)
        return targets


def _are_probabilities(outputs: Tensor) -> bool:
    """Whether outputs (n, classes) are between 0 and 1, and those of each example have the sum 1."""
    sums = outputs.double().sum(1)
    return (
        outputs.shape[1] > 1 and bool((outputs >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-4)
    )


def _check_example_axis(values: Tensor, name: str, examples: int | None = None) -> None:
    """Raise DataError unless the first axis holds examples, as many as there are targets where these are known."""
    if not values.ndim:
        raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
    if examples is not None and len(values) != examples:
        raise DataError(f"{name} yields {len(values)} inputs with {examples} targets")
    if len(values) == 0:
        raise DataError(f"{name} yields a mini-batch of 0 inputs")
