"""The forward pass of a network as a graph of operations, its normalization layers whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

import torch
from torch import fx, nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.tree.encoders import traceable_encoders
from bln_search.models.recurrent import RecurrentLayer
from bln_search.norms import Normalization

ROOT = "network"
"""The name of the network in the module that is traced, which calls it with one input as anyone would."""


class NotFollowedError(ModelError):
    """A network that cannot be cut at its normalization layers; plain forward passes still evaluate it."""


class Called(nn.Module):
    """A network called with its input alone: other parameters of its forward pass have their defaults."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Any) -> Any:
        """The network's answer."""
        return self.network(x)


class _Tracer(fx.Tracer):
    """Normalization layers stay whole, and so do recurrent layers; torch's own modules unless they hold one of them."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, Normalization | RecurrentLayer):
            return True
        holds = any(isinstance(inner, Normalization) for inner in m.modules())
        return not holds and super().is_leaf_module(m, module_qualified_name)


class _SymbolicBuffersTracer(_Tracer):
    """Buffers are symbols too, so that they can be cut to a symbolic size, as in `self.positions[:, : x.size(1)]`."""

    proxy_buffer_attributes = True


_FACTORIES = ("arange", "empty", "eye", "full", "linspace", "ones", "zeros")
"""Functions of torch that make a tensor of numbers alone, and so do not see that one of them is a symbol."""


@contextmanager
def _symbolic_factories() -> Iterator[None]:
    """While this context is open, tensors can be made of a symbolic size, as in `torch.zeros(x.shape[0], 3)`."""
    before = {name: getattr(torch, name) for name in _FACTORIES}
    try:
        for name, function in before.items():
            setattr(torch, name, _symbolic(function))
        yield
    finally:
        for name, function in before.items():
            setattr(torch, name, function)


def _symbolic(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        symbol = next(_symbols((args, kwargs)), None)
        if symbol is None:
            return function(*args, **kwargs)
        return symbol.tracer.create_proxy("call_function", function, args, kwargs)

    return made


def _symbols(value: Any) -> Iterator[fx.Proxy]:
    if isinstance(value, fx.Proxy):
        yield value
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _symbols(part)


def traced(network: nn.Module) -> tuple[Called, fx.Graph]:
    """A module that calls `network`, and the graph of its forward pass. The network must be in evaluation mode.

    Raises ModelError for a network of several inputs, NotFollowedError where its forward pass cannot be followed
    symbolically: it branches on values or sizes.
    """
    inputs = _inputs(network)
    if len(inputs) > 1:
        raise ModelError(
            f"this network takes {len(inputs)} inputs: {', '.join(inputs)}: per-layer configurations need one, "
            "examples first"
        )
    root = Called(network).eval()
    try:
        with traceable_encoders(network), _symbolic_factories():
            with suppress(Exception):  # it may branch on the values of its buffers, which are known
                return root, _SymbolicBuffersTracer().trace(root)
            return root, _Tracer().trace(root)
    except Exception as error:
        raise NotFollowedError(
            f"the forward pass of this {type(network).__name__} cannot be cut at its normalization layers "
            f"({type(error).__name__}: {error}): per-layer configurations need a network whose forward pass does not "
            "branch on the values of tensors"
        ) from error


def _inputs(network: nn.Module) -> list[str]:
    """The parameters of the forward pass that have no default."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(network.forward).parameters
    except (TypeError, ValueError):  # a scripted forward pass has no signature
        return []
    return [name for name, one in parameters.items() if one.kind in positional and one.default is one.empty]
