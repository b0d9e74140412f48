"""A network cut in front of each of its normalization layers, so that it can be continued from any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.models.recurrent import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.finding import find_norms

Stage = Callable[..., tuple[Any, ...]]
"""From the values that are alive in front of it to those alive behind it."""


@dataclass(frozen=True)
class StagedNetwork:
    """stages[0] leads from the input to the first normalization layer; stages[i] from layer i to the next, or the end.

    names: of the normalization layers, in the order in which the network reaches them. What a stage passes on is what
    later stages need: the input of the next normalization layer, and what goes around it (a residual connection).
    """

    stages: tuple[Stage, ...]
    names: tuple[str, ...]
    layers: tuple[Normalization, ...]


class _Tracer(fx.Tracer):
    """Normalization layers stay whole, and so do recurrent layers; torch's own modules unless they hold one of them."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, Normalization | RecurrentLayer):
            return True
        holds = any(isinstance(inner, Normalization) for inner in m.modules())
        return not holds and super().is_leaf_module(m, module_qualified_name)


def staged(network: nn.Module) -> StagedNetwork:
    """`network` cut at its normalization layers. It must be in evaluation mode.

    Raises ModelError where its forward pass cannot be followed symbolically (it branches on values), where it uses a
    normalization layer twice, or where it normalizes inside recurrent layers.
    """
    layers = find_norms(network)
    recurrent = [module for module in network.modules() if isinstance(module, RecurrentLayer)]
    if any(isinstance(inner, Normalization) for module in recurrent for inner in module.modules()):
        raise ModelError(
            f"this {type(network).__name__} normalizes inside its recurrent layers, at every time step: its "
            "configurations are those of the whole network; for a word for each layer, normalize behind the layers"
        )
    try:
        graph = _Tracer().trace(network)
    except Exception as error:
        raise ModelError(
            f"the forward pass of this {type(network).__name__} cannot be cut at its normalization layers "
            f"({type(error).__name__}: {error}): per-layer configurations need a network whose forward pass does not "
            "branch on the values of tensors"
        ) from error
    nodes = [node for node in graph.nodes if node.op != "output"]
    inputs = [node for node in nodes if node.op == "placeholder"]
    norms = [node for node in nodes if node.op == "call_module" and node.target in layers]
    names = [str(node.target) for node in norms]
    if not norms:
        raise ModelError(f"the forward pass of this {type(network).__name__} reaches none of its normalization layers")
    twice = sorted(name for name in set(names) if names.count(name) > 1)
    if twice:
        raise ModelError(
            f"this network uses the normalization layer {twice[0]} twice: give each place a layer of its own"
        )
    if len(inputs) != 1:
        raise ModelError(f"this network takes {len(inputs)} inputs: per-layer configurations need one, examples first")
    output = next(node for node in graph.nodes if node.op == "output")
    stage_of = _stages_of(nodes, norms)
    answer = output.args[0]
    if not isinstance(answer, fx.Node):
        raise ModelError(f"the network returns {type(answer).__name__}: wrap it so that it returns one tensor")
    stages = _cut(network, nodes, stage_of, inputs, answer, len(norms))
    return StagedNetwork(stages, tuple(names), tuple(layers[name] for name in names))


def _stages_of(nodes: Sequence[fx.Node], norms: Sequence[fx.Node]) -> dict[fx.Node, int]:
    """The first stage in which everything that a node reads is there; a normalization layer begins one of its own."""
    stage_of: dict[fx.Node, int] = {}
    for node in nodes:
        if node in norms:
            stage_of[node] = norms.index(node) + 1
        else:
            stage_of[node] = max((stage_of[read] for read in node.all_input_nodes), default=0)
    return stage_of


def _cut(
    network: nn.Module,
    nodes: Sequence[fx.Node],
    stage_of: dict[fx.Node, int],
    alive: Sequence[fx.Node],
    answer: fx.Node,
    last: int,
) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    for stage in range(last + 1):
        graph = fx.Graph()
        copies = {node: graph.placeholder(node.name) for node in alive}
        for node in nodes:
            if stage_of[node] == stage and node.op != "placeholder":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        if stage == last:
            alive = [answer]
        else:
            wanted = {read for node in nodes if stage_of[node] > stage for read in node.all_input_nodes} | {answer}
            alive = [node for node in nodes if node in copies and node in wanted]
        graph.output(tuple(copies[node] for node in alive))
        module = fx.GraphModule(network, graph)
        stages.append(module.eval())
    return tuple(stages)


def is_examples(value: Any) -> bool:
    """Is this a tensor of examples, not a number that a network works out from a shape?"""
    return isinstance(value, Tensor) and value.ndim > 0


def as_values(values: Sequence[Any], take: Callable[[Tensor], Tensor]) -> list[Any]:
    """`take` applied to the tensors of examples among the values."""
    return [take(value) if is_examples(value) else value for value in values]
