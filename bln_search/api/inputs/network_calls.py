"""Calls of a user's network: its arguments, the tensor in its output, and where it failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.data.inputs import Inputs, can_slice_examples, describe_inputs, describe_value
from bln_search.evaluation.adapted_network import Forward, NetworkWithCallAdapter
from bln_search.evaluation.isolated_passes import restored_network
from bln_search.evaluation.row_evaluator import require_output_tensor
from bln_search.norms import Normalization
from bln_search.norms.network.layers import evaluation_mode, use_training_sources_in_evaluation

_OUTPUT_KEYS = ("logits", "out")
"""Keys or attributes of the tensor in an output: those of transformers, and of torchvision's segmentation."""

_KEPT_BYTES = 2**26
"""Largest size in bytes of the inputs that are kept; those of the latest mini-batch are always kept."""

_MOST_MINI_BATCHES, _MOST_WITH_OBJECTS = 4096, 16
"""Largest numbers of mini-batches that are kept; objects have an unknown size, and are passed one by one."""


def call_network_with_unpacked_inputs(network: Any, inputs: Any) -> Any:
    """The output of a network for a tensor, a dictionary of keywords, or a list of arguments."""
    if isinstance(inputs, Mapping):
        return network(**inputs)
    return network(*inputs) if isinstance(inputs, list | tuple) else network(inputs)


def return_output_unchanged(output: Any) -> Any:
    """The output itself."""
    return output


def make_output_tensor_selector(output: Any, examples: int) -> Callable[[Any], Any]:
    """A function that returns the tensor in an output like this one. Raises ModelError if there is none."""
    if isinstance(output, Tensor):
        return return_output_unchanged
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


class LatestMiniBatches:
    """The latest mini-batches of a loader, of which one may fail in a pass of several mini-batches."""

    def __init__(self) -> None:
        self._batches: deque[tuple[str, Inputs, int]] = deque()
        self._bytes = 0

    def clear(self) -> None:
        """Forget all, because another reading begins."""
        self._batches.clear()
        self._bytes = 0

    def append(self, name: str, inputs: Inputs) -> None:
        """Add a mini-batch with its name, and forget the earliest ones."""
        tensors = list_tensors(inputs)
        most = _MOST_MINI_BATCHES if can_slice_examples(inputs) else _MOST_WITH_OBJECTS
        size = max(sum(tensor.numel() * tensor.element_size() for tensor in tensors), _KEPT_BYTES // most)
        self._batches.append((name, inputs, size))
        self._bytes += size
        while len(self._batches) > 1 and self._bytes > _KEPT_BYTES:
            self._bytes -= self._batches.popleft()[2]

    def __iter__(self) -> Iterator[tuple[str, Inputs]]:
        return iter([(name, inputs) for name, inputs, _ in self._batches])

    @property
    def latest_name(self) -> str | None:
        """The name of the latest mini-batch; None without one."""
        return self._batches[-1][0] if self._batches else None


def list_tensors(inputs: Inputs) -> list[Tensor]:
    """All tensors of inputs."""
    return [inputs] if isinstance(inputs, Tensor) else list(inputs.tensors)


def find_failing_layer(error: BaseException, network: nn.Module) -> str | None:
    """Return the innermost module in whose forward pass an error was raised, in words.

    Returns:
        For example "in the layer encoder.0 (Linear)", "in Network.forward" for the network alone; None for an error
        that was not raised in the network.
    """
    inner = network.network if isinstance(network, NetworkWithCallAdapter) else network
    names: dict[int, str] = {}
    place = None
    for module in _iter_modules_of_frames(error.__traceback__):
        if not names and type(module) is type(inner):  # a copy of the network has modules of its own
            names = {id(part): name for name, part in module.named_modules()}
        if id(module) in names:
            name = names[id(module)]
            kind = type(module).__name__
            place = f"in the layer {name} ({kind})" if name else f"in {kind}.forward"
    return place


def is_failure_of_network(error: BaseException) -> bool:
    """Return whether an error says something about a network: too little memory and errors of bln-search do not."""
    return not isinstance(error, BlnSearchError | torch.OutOfMemoryError | MemoryError)


def _iter_modules_of_frames(traceback: TracebackType | None) -> Iterator[nn.Module]:
    """Yield the modules whose methods are in a traceback, the outermost first."""
    while traceback is not None:
        module = traceback.tb_frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            yield module
        traceback = traceback.tb_next


class NetworkCaller:
    """Calls the network of a user with inputs of any structure, and says where and for which mini-batch it fails.

    Args:
        network: The network.
        forward: Called with the network, or a copy of it, and with a mini-batch; returns the outputs. None for the
            default: a tensor is the only argument, a list gives the arguments, a dictionary the keywords.

    Attributes:
        network: Takes the inputs and returns one tensor; the network itself if it does so.
        latest: The latest mini-batches that were read.
        is_structured: Whether mini-batches have other inputs than one tensor.
    """

    def __init__(self, network: nn.Module, forward: Forward | None) -> None:
        self.network = network if forward is None else NetworkWithCallAdapter(network, forward, return_output_unchanged)
        self.latest = LatestMiniBatches()
        self.is_structured = False
        self._original, self._forward = network, forward
        self._select: Callable[[Any], Any] | None = None

    def run(self, inputs: Inputs, name: str) -> Tensor:
        """Outputs of the network for inputs, with mini-batch statistics."""
        call = self._forward or call_network_with_unpacked_inputs
        build = inputs.clone() if isinstance(inputs, Tensor) else inputs.clone().build_structure()
        with (
            restored_network(self._original),
            evaluation_mode(self._original),
            use_training_sources_in_evaluation(
                [module for module in self._original.modules() if isinstance(module, Normalization)]
            ),
        ):
            try:
                output = call(self._original, build)
            except (BlnSearchError, torch.OutOfMemoryError):
                raise
            except Exception as error:
                raise DataError(self._describe_failure(error, inputs, name)) from error
        if self._select is None:
            self._select = make_output_tensor_selector(output, len(inputs))
            if self._forward is not None or self.is_structured or not isinstance(output, Tensor):
                self.network = NetworkWithCallAdapter(self._original, call, self._select)
        return require_output_tensor(self._select(output))

    def _describe_failure(self, error: Exception, inputs: Inputs, name: str) -> str:
        caller = "forward=" if self._forward else "the network"
        place = name if name.startswith("mini-batch") else f"a mini-batch of {name}"
        needs_forward = self._forward is None and self.is_structured
        hint = "; give forward=, which calls it with the parts that it takes" if needs_forward else ""
        layer = find_failing_layer(error, self._original)
        return (
            f"{caller} failed for {place} ({type(error).__name__}: {error}), which is {describe_inputs(inputs)}{hint}"
            f"{f'; it was raised {layer}' if layer else ''}"
        )

    @contextmanager
    def explained_failures(self, loader: str, batches: Iterable[tuple[str, Inputs]] | None = None) -> Iterator[None]:
        """Within this context, name the layer and the mini-batch of `loader` in which the network fails.

        One of `batches` may fail alone; by default one of the latest that were read.

        Raises:
            DataError: The network fails for one of the mini-batches alone.
            ModelError: It fails only where several mini-batches or configurations are evaluated in one pass.
        """
        try:
            yield
        except Exception as error:
            cause = error.__cause__ if isinstance(error, BlnSearchError) else error  # the one pass explains errors too
            place = None if cause is None else find_failing_layer(cause, self.network)
            if cause is None or place is None or not is_failure_of_network(cause):
                raise
            for name, inputs in self.latest if batches is None else batches:
                self.run(inputs, name)
            if cause is not error:
                raise
            latest = self.latest.latest_name if batches is None else None
            raise ModelError(
                f"the network failed {place} in a pass over {loader}"
                f"{f', of which {latest} was read last' if latest else ''} ({type(error).__name__}: {error}), but not "
                "when each mini-batch is passed alone with mini-batch statistics"
            ) from error


def is_finite(x: Tensor) -> bool:
    """Whether all values are finite: their sum tells for most tensors, faster than the values."""
    return not x.is_floating_point() or bool(x.sum().isfinite() or x.isfinite().all())


def find_value_that_is_not_finite(inputs: Inputs) -> str | None:
    """Which value of which example is not finite; None where all are."""
    for x in list_tensors(inputs):
        if not is_finite(x):
            example = int((~x.isfinite()).reshape(max(len(x), 1), -1).any(1).nonzero()[0]) if x.ndim else 0
            return f"{'NaN' if x.isnan().any() else 'inf'}, first in example {example}"
    return None
