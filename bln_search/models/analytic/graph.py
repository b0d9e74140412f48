"""The forward pass of a network as a graph with shapes, and programs on mean and variance along it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.models.activations import SlopedReLU
from bln_search.models.analytic.node_rules import get_moment_rule
from bln_search.models.pooling import AveragePool2
from bln_search.models.tracing import NormTracer
from bln_search.norms import Normalization
from bln_search.norms.analytic.moment_rules import MomentRule
from bln_search.norms.analytic.propagation_program import PropagationProgram, PropagationStep
from bln_search.norms.network.layers import evaluation_mode

LinearOrConvolution = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


class _LeafTracer(NormTracer):
    """Also treats modules that have a rule as leaves."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, AveragePool2 | SlopedReLU) or super().is_leaf_module(m, module_qualified_name)


def trace_with_shapes(network: nn.Module, example: Tensor, *, advice: str) -> fx.Graph:
    """Return the graph of a forward pass, each node with the shape of an example's value in `meta["shape"]`.

    Args:
        network: with one input.
        example: an input (N, ...) of the network; its values do not matter.
        advice: what to do if the network cannot be traced, for the message.

    Raises:
        ModelError: the network cannot be traced.
    """
    with evaluation_mode(network):
        try:
            graph = _LeafTracer().trace(network)
        except Exception as error:
            raise ModelError(
                f"the forward pass of this {type(network).__name__} cannot be traced, so the operations between its "
                f"layers are unknown ({type(error).__name__}: {error}): {advice}"
            ) from error
        with torch.no_grad():
            _ShapeRecorder(fx.GraphModule(network, graph)).run(example)
    return graph


class _ShapeRecorder(fx.Interpreter):
    """Runs a graph and records the shape of each value in `meta["shape"]`, without the axis of examples."""

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            n.meta["shape"] = tuple(value.shape[1:])
        return value

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module; a normalization layer, which may not be bound, returns its input."""
        is_norm = isinstance(self.fetch_attr(str(target)), Normalization)
        return args[0] if is_norm else super().call_module(target, args, kwargs)


class PropagationProgramBuilder(ABC):
    """Makes programs on mean and variance from the origins of values to a node of a graph.

    Args:
        network: to whose modules the graph belongs.
        advice: what to do about an operation without a rule, for the message.
    """

    def __init__(self, network: nn.Module, *, advice: str) -> None:
        self.network, self.advice = network, advice

    def build_program_to(self, target: fx.Node) -> PropagationProgram:
        """Return the program that gives mean and variance of a node's value.

        Raises:
            ModelError: an operation on the way has no rule.
        """
        needed = collect_needed_nodes([target], lambda node: self.find_origin_rule(node) is not None)
        numbers: dict[fx.Node, int] = {}
        steps: list[PropagationStep] = []
        for node in target.graph.nodes:
            if node in needed:
                step = self._make_step(node, numbers)
                numbers[node] = len(steps)
                steps.append(step)
        return PropagationProgram(steps)

    @abstractmethod
    def find_origin_rule(self, node: fx.Node) -> MomentRule | None:
        """Return the rule of a node whose mean and variance do not follow from its arguments; None of other nodes."""

    def get_operation_rule(self, node: fx.Node) -> MomentRule:
        """Return the rule of an operation on its arguments."""
        return get_moment_rule(node, self.network, advice=self.advice)

    def _make_step(self, node: fx.Node, numbers: Mapping[fx.Node, int]) -> PropagationStep:
        origin = self.find_origin_rule(node)
        if origin is not None:
            return PropagationStep(origin)
        return PropagationStep(
            self.get_operation_rule(node), tuple(numbers[argument] for argument in node.all_input_nodes)
        )


def collect_needed_nodes(targets: Iterable[fx.Node], is_origin: Callable[[fx.Node], bool]) -> set[fx.Node]:
    """Return `targets` and the nodes on the way to them from origins, whose arguments are not needed."""
    needed: set[fx.Node] = set()
    waiting = list(targets)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += [] if is_origin(node) else node.all_input_nodes
    return needed


def find_called_module(node: fx.Node, network: nn.Module) -> nn.Module | None:
    """Return the module that a node calls; None where it calls none."""
    return network.get_submodule(str(node.target)) if node.op == "call_module" else None


def shape_with_one_value_per_channel(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an example with one value for each channel; vectors and sequences keep their shape."""
    return (shape[0], *[1] * (len(shape) - 1)) if len(shape) > 2 else shape
