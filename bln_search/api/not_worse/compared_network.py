"""A network, or a function in its place, as it is deployed: its outputs and losses for the mini-batches of a loader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.api.check.check import find_network_device
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.inputs.network_calls import find_failing_layer
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.data.inputs import Inputs, can_slice_examples
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.batches import iter_batches_filled_to_first_size
from bln_search.evaluation.checks.numerical_comparison import output_distance_in_tolerances
from bln_search.evaluation.isolated_passes import IsolatedPasses
from bln_search.evaluation.row_evaluator import require_output_tensor
from bln_search.evaluation.scoring import score_examples
from bln_search.norms.network.layers import evaluation_mode
from bln_search.tasks.score import Score, Scores

Network = nn.Module | Callable[..., Any]
"""A network, or a function that is called with its inputs and returns outputs, as of another runtime."""

_HALF_PRECISION = torch.float16, torch.bfloat16


class _FunctionAsModule(nn.Module):
    """A function with the interface of a network, called as it is. Its output becomes a tensor on a device."""

    def __init__(self, function: Callable[..., Any], device: torch.device) -> None:
        super().__init__()

        @functools.wraps(function, updated=())
        def forward(*inputs: Any, **named: Any) -> Any:
            output = function(*inputs, **named)
            output = torch.from_numpy(output) if isinstance(output, np.ndarray) else output
            return output.to(device) if isinstance(output, Tensor) else output

        self.forward = forward
        self.eval()


class ComparedNetwork:
    """A network or a function, in evaluation mode if it is in training mode, otherwise as it is.

    Args:
        network: The network.
        name: The argument that gave it, for messages.
        forward: As of `evaluate_configurations`.
        target: As of `evaluate_configurations`.
        progress: Counts mini-batches; None for no lines of progress.

    Attributes:
        module: The network as a module.
        depends_on_batch: Whether outputs for an example changed with its batch-mates; of the last reading.

    Raises:
        ModelError: It is no network and no function.
    """

    def __init__(
        self,
        network: Network,
        name: str,
        forward: Forward | None,
        target: Target | None,
        progress: ProgressLines | None = None,
    ) -> None:
        if isinstance(network, type) or not callable(network):
            kind = f"the class {network.__name__}" if isinstance(network, type) else f"a {type(network).__name__}"
            raise ModelError(f"{name} is {kind}: give a network, or a function that is called with its inputs")
        device = find_network_device(network) if isinstance(network, nn.Module) else torch.device("cpu")
        self.name = name
        self.module: nn.Module
        if isinstance(network, nn.Module) and "eval" not in vars(network):  # an exported program refuses eval()
            self.module = network
        else:
            self.module = _FunctionAsModule(network, device)
        self.depends_on_batch = False
        self._adapter = BatchAdapter(self.module, forward, target, device, progress)

    def iter_outputs_and_scores(self, loader: RoleLoader, score: Score) -> Iterator[tuple[Tensor, Scores]]:
        """Outputs, and scores of the examples, of each mini-batch.

        A shorter last mini-batch is filled up with examples that are not scored.

        Raises:
            DataError: The network fails, or the mini-batches do not fit it or the score.
            ModelError: It returns something else than outputs of the examples.
        """
        with self._named_errors():
            batches = iter_batches_filled_to_first_size(self._adapter.iter_input_target_pairs(loader, score))
            for number, (inputs, targets) in enumerate(batches):
                place = f"mini-batch {number} (counted from 0) of {loader.name}"
                outputs = self._call(inputs, place)
                if number == 0:
                    self.depends_on_batch = self._changes_with_batch_mates(inputs, place)
                outputs = outputs[: len(targets)]
                of_score = outputs.float() if outputs.dtype in _HALF_PRECISION else outputs
                yield outputs, score_examples(score, of_score, targets)

    def _call(self, inputs: Inputs, place: str) -> Tensor:
        try:
            with evaluation_mode(self.module) if self.module.training else nullcontext():
                return require_output_tensor(self._adapter.network(inputs))
        except (BlnSearchError, torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            layer = find_failing_layer(error, self.module)
            raise DataError(
                f"the network failed for {place} ({type(error).__name__}: {error})"
                f"{f'; it was raised {layer}' if layer else ''}"
            ) from error

    def _changes_with_batch_mates(self, inputs: Inputs, place: str) -> bool:
        """Whether outputs of the first half of a mini-batch change where the rest repeats it."""
        size = len(inputs)
        half = size // 2
        if not half or not can_slice_examples(inputs):
            return False
        rows = torch.cat([torch.arange(half), torch.arange(size - half)]).to(inputs.device)
        passes = IsolatedPasses(self.module)
        try:
            with passes.pass_of_row(0):
                before = self._call(inputs, place)[:half]
            with passes.pass_of_row(0):
                after = self._call(inputs[rows], place)[:half]
        except DataError:  # as where a layer needs examples that differ
            return False
        return output_distance_in_tolerances(before, after) > 1

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Begin messages of errors with the name of the network."""
        try:
            yield
        except (DataError, ModelError) as error:
            raise type(error)(f"{self.name}: {error}") from error
