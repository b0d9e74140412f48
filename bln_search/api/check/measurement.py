"""Measurements of a check: the outcomes of each variant of a network over the same examples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.api.check.input_moments import InputMoments
from bln_search.api.check.layers import (
    Layers,
    Moments,
    estimate_moments,
    find_statistics_layers,
    is_lack_of_values,
    make_trainable_layers,
    mini_batch_statistics,
    read_moments,
    stored_statistics,
)
from bln_search.api.check.modes import evaluation_modes, modes
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.evaluation_data import iter_batches_by_size
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.inputs.network_calls import find_failing_layer, list_tensors
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.data.inputs import Inputs, can_slice_examples, have_same_form
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.numerical_comparison import output_distance_in_tolerances
from bln_search.evaluation.isolated_passes import IsolatedPasses
from bln_search.evaluation.network_state import is_lazy_network
from bln_search.evaluation.row_evaluator import require_output_tensor
from bln_search.evaluation.scoring import score_examples
from bln_search.norms.network.copying import copy_network
from bln_search.tasks.score import Score

_ESTIMATION_SIZE = 16
"""Mini-batch size from which statistics of the validation inputs are estimated, where mini-batches are smaller."""


class TooFewValuesError(Exception):
    """A layer gets one value in a channel, which has no variance."""


def copy_with_plain_layers(network: nn.Module) -> nn.Module:
    """A copy of a network whose layers can use mini-batch statistics. Raises ModelError where it cannot be copied."""
    try:
        made = copy_network(network)
    except Exception as error:
        raise ModelError(
            f"this {type(network).__name__} cannot be copied ({type(error).__name__}: {error}): give the network "
            "itself, without hooks or wrappers that hold graphs, files or processes"
        ) from error
    make_trainable_layers(made)
    return made


@dataclass(frozen=True)
class TrainingStatistics:
    """What a pass over the training inputs shows.

    Attributes:
        moments: Statistics of the layers that were reached.
        inputs: Moments of the inputs.
        first: Inputs of the first mini-batch.
        examples: Number of examples; 0 where inputs are no tensors with the examples on their first axis.
        batch_size: Size of the first mini-batch; 0 where it is unknown.
    """

    moments: Mapping[str, Moments]
    inputs: InputMoments
    first: Inputs
    examples: int
    batch_size: int


@dataclass
class MeasuredNetwork:
    """A copy of a network with its validation data in memory.

    Attributes:
        network: The copy.
        adapter: Calls it.
        score: The score.
        name: The argument of the loader, for messages.
        batches: Mini-batches of the validation data as the loader yields them.
    """

    network: nn.Module
    adapter: BatchAdapter
    score: Score
    name: str
    batches: list[MiniBatch]
    layers: Layers = field(init=False)

    def __post_init__(self) -> None:
        """Find the layers of the copy."""
        self.layers = find_statistics_layers(self.network)

    @staticmethod
    def load(
        network: nn.Module,
        validation: RoleLoader | None,
        others: Sequence[RoleLoader],
        *,
        score: Score,
        forward: Forward | None,
        target: Target | None,
        device: torch.device,
        progress: ProgressLines,
    ) -> MeasuredNetwork:
        """Copy a network, in evaluation mode if it is in training mode, and load the validation data.

        Raises:
            ModelError: The network cannot be copied, or does not return outputs of the examples.
            DataError: The data do not fit it.
        """
        made = copy_with_plain_layers(network)
        if network.training:
            made.eval()
        if is_lazy_network(made):
            raise ModelError("the network has layers without parameters yet: pass one mini-batch through it first")
        if any(isinstance(module, torch.jit.ScriptModule) for module in made.modules()):
            raise ModelError(
                "the network is compiled by torch.jit, whose layers cannot be changed: give it before it is scripted"
            )
        adapter = BatchAdapter(made, forward, target, device, progress)
        adapter.try_samples([] if validation is None else [validation], others, score)
        batches = [] if validation is None else list(adapter.iter_input_target_pairs(validation, score))
        return MeasuredNetwork(made, adapter, score, "" if validation is None else validation.name, batches)

    @property
    def batch_size(self) -> int:
        """The mini-batch size of the loader."""
        return len(self.batches[0][0])

    @property
    def num_examples(self) -> int:
        """Number of validation examples."""
        return sum(len(targets) for _, targets in self.batches)

    @property
    def has_sliceable_inputs(self) -> bool:
        """Whether mini-batches of other sizes can be made."""
        first, targets = self.batches[0]
        return can_slice_examples(first) and all(
            have_same_form(inputs, first) and other.shape[1:] == targets.shape[1:] for inputs, other in self.batches
        )

    def batches_of(self, size: int) -> list[MiniBatch]:
        """Mini-batches of a size, the last one filled up."""
        sizes = None if size == self.batch_size else [size]
        ((_, batches),) = iter_batches_by_size(iter(self.batches), sizes, self.name)
        return list(batches)

    def measure(
        self,
        size: int,
        *changes: Callable[[], object],
        transform: Callable[[Inputs], Inputs] | None = None,
        part: str = "as deployed",
    ) -> tuple[ExampleOutcomes, IsolatedPasses] | None:
        """Outcomes of all examples, with context managers that change the network meanwhile; `part` names it.

        Returns None where a layer gets one value in a channel, which has no variance.
        """
        passes = IsolatedPasses(self.network)
        try:
            with ExitStack() as stack, torch.no_grad():
                stack.enter_context(passes.pass_of_row(0))
                for change in changes:
                    stack.enter_context(change())  # type: ignore[arg-type]
                batches = self.batches_of(size)
                self.adapter.progress.start_part(part, "mini-batches", len(batches))
                return self._score(batches, transform), passes
        except TooFewValuesError:
            return None

    def _score(self, batches: Iterable[MiniBatch], transform: Callable[[Inputs], Inputs] | None) -> ExampleOutcomes:
        losses, correct, weights = [], [], []
        for inputs, targets in batches:
            outputs = self.call(inputs if transform is None else transform(inputs))[: len(targets)]
            scores = score_examples(self.score, outputs, targets)
            self.adapter.progress.advance()
            losses.append(scores.losses.double().cpu())
            correct.append(scores.correct.cpu())
            if scores.weights is not None:
                weights.append(scores.weights.double().cpu())
        return ExampleOutcomes(
            torch.cat(losses).numpy(), torch.cat(correct).numpy(), torch.cat(weights).numpy() if weights else None
        )

    def call(self, inputs: Inputs) -> Tensor:
        """Outputs of the network in its present state."""
        saved = [(module, module.training) for module in self.network.modules()]
        with self.explained_failures(self.name):
            outputs = require_output_tensor(self.adapter.network(inputs))
        self._restore_modes(saved)
        return outputs

    def _restore_modes(self, saved: Iterable[tuple[nn.Module, bool]]) -> None:
        """Restore the modes of modules that a call changed. Raises ModelError where it changed those of layers."""
        layers = {id(layer): name for name, layer in self.layers.items()}
        for module, training in saved:
            if module.training != training and id(module) in layers:
                raise ModelError(
                    f"a call of the network changes the mode of the layer {layers[id(module)]}, on which its "
                    "statistics depend: let forward= set the modes of other modules alone"
                )
            module.training = training

    @contextmanager
    def explained_failures(self, name: str) -> Iterator[None]:
        """Within this context name the loader of the mini-batch for which the network fails.

        Raises:
            TooFewValuesError: A layer gets one value in a channel, which has no variance.
            DataError: The network fails for another reason.
        """
        try:
            yield
        except (BlnSearchError, torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            if is_lack_of_values(error):
                raise TooFewValuesError from error
            place = find_failing_layer(error, self.network)
            raise DataError(
                f"the network failed for a mini-batch of {name} ({type(error).__name__}: {error})"
                f"{f'; it was raised {place}' if place else ''}"
            ) from error

    def compute_data_digest(self) -> str:
        """SHA-256 of the validation inputs and targets."""
        digest = hashlib.sha256()
        for inputs, targets in self.batches:
            for tensor in (*list_tensors(inputs), targets):
                values = tensor.detach().cpu().contiguous()
                digest.update(f"{values.dtype} {tuple(values.shape)}".encode())
                digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def estimate_from_training(self, loader: RoleLoader) -> TrainingStatistics:
        """Statistics of the training inputs with the present weights."""
        inputs_seen = InputMoments()
        sizes: list[int] = []
        first: list[Inputs] = []

        def iter_inputs() -> Iterator[Inputs]:
            for inputs in self.adapter.iter_population_inputs(loader):
                inputs_seen.add(inputs)
                sizes.append(len(inputs) if can_slice_examples(inputs) else 0)
                if not first:
                    first.append(inputs)
                yield inputs

        moments = self.estimate(iter_inputs(), loader.name)
        return TrainingStatistics(moments, inputs_seen, first[0], sum(sizes), sizes[0])

    def estimate_from_inputs(self, inputs: Sequence[Inputs], name: str) -> TrainingStatistics:
        """Statistics of inputs in memory with the present weights. name: the argument of their loader."""
        seen = InputMoments()
        for each in inputs:
            seen.add(each)
        return TrainingStatistics(self.estimate(inputs, name), seen, inputs[0], sum(map(len, inputs)), len(inputs[0]))

    def estimate_from_validation(self) -> tuple[Mapping[str, Moments], InputMoments]:
        """Statistics of the validation inputs with the present weights."""
        inputs_seen = InputMoments()
        for inputs, _ in self.batches:
            inputs_seen.add(inputs)
        size = min(_ESTIMATION_SIZE, self.num_examples)
        is_small = self.batch_size < size and self.has_sliceable_inputs
        batches = self.batches_of(size) if is_small else self.batches
        try:
            return self.estimate((inputs for inputs, _ in batches), self.name), inputs_seen
        except DataError as error:
            if not isinstance(error.__cause__, TooFewValuesError):
                raise
            return {}, inputs_seen  # of one example, which has no variance

    def estimate(self, inputs: Iterable[Inputs], name: str) -> Mapping[str, Moments]:
        """Statistics of inputs with the present weights. name: the argument of their loader."""
        passes = IsolatedPasses(self.network)
        try:
            with passes.pass_of_row(0), evaluation_modes(self.network), self.explained_failures(name):
                return estimate_moments(self.adapter.network, self.layers, inputs)
        except TooFewValuesError as error:
            raise DataError(
                f"{name} yields mini-batches of one example, of which a layer cannot compute a variance: give "
                "mini-batches of the training size"
            ) from error

    @torch.no_grad()
    def require_use_of_layers(self, reached: Iterable[str], inputs: Inputs) -> None:
        """Raise ModelError where layers that no call reached change the outputs, or where the copy is not called.

        A function inside the network may use the statistics of a layer without calling it, or call another network.
        """
        unreached = [name for name in self.layers if name not in set(reached)]
        if not unreached:
            return
        before = self._call_once(inputs)
        moved = {name: _move_moments(self.layers[name]) for name in unreached}
        with stored_statistics(self.layers, moved):
            after = self._call_once(inputs)
        is_used = before.shape != after.shape or not torch.equal(before.nan_to_num(), after.nan_to_num())
        if is_used:
            raise ModelError(
                f"the network uses the statistics of the layer {unreached[0]} without calling it, as through its "
                "forward() or a function such as F.batch_norm: they cannot be estimated again; call the layer itself"
            )
        if len(unreached) == len(self.layers):
            raise ModelError(
                "no call reaches a normalization layer of the network that is given: forward=, or a function that the "
                "network keeps, calls another network; call the first argument of forward="
            )

    @torch.no_grad()
    def depends_on_earlier_passes(self) -> bool:
        """Whether outputs for the first mini-batch change after passes that are not taken back."""
        inputs = self.batches[0][0]
        with IsolatedPasses(self.network).pass_of_row(0):
            before = self.call(inputs)
            self.call(self.batches[-1][0])
            after = self.call(inputs)
        return output_distance_in_tolerances(before, after) > 1

    def _call_once(self, inputs: Inputs) -> Tensor:
        with IsolatedPasses(self.network).pass_of_row(0), evaluation_modes(self.network):
            return self.call(inputs)

    @contextmanager
    def with_statistics(self, moments: Mapping[str, Moments]) -> Iterator[None]:
        """Within this context layers store these statistics and use them."""
        with stored_statistics(self.layers, moments), modes(self.layers.values(), training=False):
            yield

    @contextmanager
    def with_mini_batch_statistics(self) -> Iterator[None]:
        """Within this context all layers use the statistics of the mini-batch."""
        with mini_batch_statistics(self.layers.values()):
            yield

    @contextmanager
    def with_default_epsilon(self, defaults: Mapping[str, float]) -> Iterator[None]:
        """Within this context layers have another ε."""
        own = {name: self.layers[name].eps for name in defaults}
        try:
            for name, epsilon in defaults.items():
                self.layers[name].eps = epsilon  # type: ignore[assignment]
            yield
        finally:
            for name, value in own.items():
                self.layers[name].eps = value


def _move_moments(layer: nn.Module) -> Moments:
    """Other statistics than those that a layer stores."""
    stored = read_moments(layer)
    return Moments(np.nan_to_num(stored.mean) + 1.0, np.nan_to_num(stored.variance) * 2 + 1.0)
