"""Programs of networks with moving statistics (source E): the stream is an argument, and a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.core.method import Statistic
from bln_search.norms import Normalization
from bln_search.norms.network.layers import get_norms_by_name, reset_stream

Stream = tuple[Tensor, ...]
"""The value of each moving statistic: layers in the order of the network, statistics in that of a configuration."""

Step = Callable[[Callable[..., Any], tuple[Tensor, ...], Mapping[str, Tensor], Stream], tuple[Any, Stream]]
"""Runs a program with positional and named inputs and a stream, and returns outputs and the stream after them."""

_NAMES = {
    Statistic.BATCH_MEAN: "batch_mean",
    Statistic.BATCH_DEVIATION: "batch_deviation",
    Statistic.FEATURE_MEAN: "feature_mean",
    Statistic.FEATURE_DEVIATION: "feature_deviation",
}


def initial_stream(network: nn.Module) -> dict[str, Tensor]:
    """Return the population values at which the stream of a network begins; empty without moving statistics.

    Args:
        network: with a configuration and its population values.

    Returns:
        The values in the order of `Stream`, by name, as in `features.norm1.batch_mean`. Those of deviations are
        deviations.
    """
    return {
        ".".join(part for part in (name, _NAMES[statistic]) if part): _value_before_stream(layer, statistic)
        for name, layer in get_norms_by_name(network).items()
        for statistic in _list_moving_statistics(layer)
    }


def _value_before_stream(layer: Normalization, statistic: Statistic) -> Tensor:
    value = layer.find_configured_value(statistic)
    assert value is not None
    return value.detach().clone()


def _list_moving_statistics(layer: Normalization) -> list[Statistic]:
    return [statistic for statistic in layer.method.statistics if layer.configuration.source_of(statistic).is_moving]


class NetworkWithStream(nn.Module):
    """A network as a function of inputs and stream, without state of its own.

    Args:
        network: with moving statistics, in evaluation mode. Its own stream ends with each pass.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor | tuple[Tensor, ...] | dict[str, Tensor], stream: Stream) -> tuple[Any, Stream]:
        """Return the outputs and the stream after them.

        Args:
            inputs: the input of the network, a tuple of its inputs, or its inputs by the name of the argument.
            stream: the stream before them.
        """
        layers = list(get_norms_by_name(self.network).values())
        values = iter(stream)
        for layer in layers:
            moving = {statistic: next(values) for statistic in _list_moving_statistics(layer)}
            layer.moving_values = moving or None
        if isinstance(inputs, Tensor):
            outputs = self.network(inputs)
        else:
            outputs = self.network(**inputs) if isinstance(inputs, dict) else self.network(*inputs)
        moved = tuple(value for layer in layers for value in (layer.moving_values or {}).values())
        reset_stream(self.network)
        return outputs, moved


class ProgramWithStream(nn.Module):
    """A program that keeps its stream from call to call, without gradients, as a network of bln-search does.

    Args:
        program: written from `NetworkWithStream`.
        step: runs it once.
        initial: the stream before the first mini-batch.

    Attributes:
        stream: the stream after the last mini-batch.
    """

    def __init__(self, program: Callable[..., Any], step: Step, initial: Stream) -> None:
        super().__init__()
        self.program, self._step, self._initial = program, step, initial
        self.stream = initial
        self.training = False

    @torch.no_grad()
    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """Return the outputs of the network for the next mini-batch."""
        outputs, self.stream = self._step(self.program, inputs, named, self.stream)
        return outputs

    def reset_stream(self) -> None:
        """Let the next mini-batch be the first one of a stream."""
        self.stream = self._initial


def join_inputs(positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Return inputs as one argument: by name, alone, or as a tuple."""
    if named:
        return dict(named)
    return positional[0] if len(positional) == 1 else tuple(positional)


def run_torch_program(
    program: Callable[..., Any], positional: tuple[Tensor, ...], named: Mapping[str, Tensor], stream: Stream
) -> tuple[Any, Stream]:
    """Run a torch.export program of `NetworkWithStream`."""
    outputs, moved = program(join_inputs(positional, named), stream)
    return outputs, tuple(moved)


def run_onnx_program(
    program: Callable[..., Any], positional: tuple[Tensor, ...], named: Mapping[str, Tensor], stream: Stream
) -> tuple[Any, Stream]:
    """Run an ONNX program of `NetworkWithStream`, with tensors in the order of its inputs."""
    outputs = program(*(positional or named.values()), *stream)
    return outputs[: -len(stream)], tuple(outputs[-len(stream) :])
