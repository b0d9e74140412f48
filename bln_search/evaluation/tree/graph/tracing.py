"""Tracing of a network's forward pass into a graph of operations with normalization layers as single nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

import torch
from torch import fx, nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.adapted_network import NetworkWithCallAdapter
from bln_search.evaluation.isolated_passes import restored_network
from bln_search.evaluation.tree.graph.traceable_encoders import use_traceable_encoders
from bln_search.models.tracing import NormTracer

ROOT = "network"
"""Name of the network in the traced module, which calls it with one input."""


class NotTraceableError(ModelError):
    """A network that cannot be split at its normalization layers; plain forward passes can evaluate it."""


class SingleInputModule(nn.Module):
    """Calls a network with one input; other parameters of its forward pass have their defaults."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.call = network, nn.Module.__call__
        if isinstance(network, NetworkWithCallAdapter):
            self.network, self.call = network.network, network.call_network_and_select_output
        self.eval()

    def forward(self, x: Any) -> Any:
        """Return the network's output."""
        return self.call(self.network, x)


class _SymbolicBuffersTracer(NormTracer):
    """Makes buffers symbolic too, for slices of symbolic size as in `self.positions[:, : x.size(1)]`."""

    proxy_buffer_attributes = True


_FACTORIES = ("arange", "empty", "eye", "full", "linspace", "ones", "zeros")
"""Functions of torch that make a tensor from numbers only and do not recognize symbolic numbers."""


@contextmanager
def _allow_symbolic_sizes() -> Iterator[None]:
    """Allow tensors of symbolic size in this context, as in `torch.zeros(x.shape[0], 3)`."""
    originals = {name: getattr(torch, name) for name in _FACTORIES}
    try:
        for name, function in originals.items():
            setattr(torch, name, _make_factory_symbolic(function))
        yield
    finally:
        for name, function in originals.items():
            setattr(torch, name, function)


def _make_factory_symbolic(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def symbolic_function(*args: Any, **kwargs: Any) -> Any:
        symbol = next(_find_proxies((args, kwargs)), None)
        if symbol is None:
            return function(*args, **kwargs)
        return symbol.tracer.create_proxy("call_function", function, args, kwargs)

    return symbolic_function


def _find_proxies(value: Any) -> Iterator[fx.Proxy]:
    if isinstance(value, fx.Proxy):
        yield value
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _find_proxies(part)


def trace_to_root_and_graph(network: nn.Module) -> tuple[SingleInputModule, fx.Graph]:
    """Return a module that calls `network`, and the graph of its forward pass. The network must be in evaluation mode.

    Raises:
        ModelError: the network has several inputs.
        NotTraceableError: the forward pass cannot be traced, as it branches on values or sizes.
    """
    inputs = [] if isinstance(network, NetworkWithCallAdapter) else _list_required_parameters(network)
    if len(inputs) > 1:
        raise ModelError(
            f"this network takes {len(inputs)} inputs: {', '.join(inputs)}: per-layer configurations need a network "
            "with one input, examples on its first axis"
        )
    root, tracer = SingleInputModule(network), NormTracer()
    network = root.network
    try:
        with restored_network(network), use_traceable_encoders(network), _allow_symbolic_sizes():
            with suppress(Exception):  # it may branch on the values of its buffers, which are known
                return root, _SymbolicBuffersTracer().trace(root)
            return root, tracer.trace(root)
    except Exception as error:
        raise NotTraceableError(
            f"the forward pass of this {type(network).__name__} cannot be split at its normalization layers: "
            f"{_find_untraceable_module(tracer, network)} cannot be traced ({type(error).__name__}: {error}). "
            "Per-layer configurations need a network whose forward pass does not branch on the values of tensors or on "
            "their sizes; torch.where can replace a branch on values"
        ) from error


def _find_untraceable_module(tracer: fx.Tracer, network: nn.Module) -> str:
    name, kind = next(reversed(tracer.module_stack.values()), (ROOT, type(network)))
    inner = name.removeprefix(ROOT).removeprefix(".")
    return f"its module {inner} ({kind.__name__})" if inner else "its own forward pass"


def _list_required_parameters(network: nn.Module) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(network.forward).parameters
    except (TypeError, ValueError):  # a scripted forward pass has no signature
        return []
    return [
        name
        for name, parameter in parameters.items()
        if parameter.kind in positional and parameter.default is parameter.empty
    ]
