"""A network cut in front of each of its normalization layers, so that it can be continued from any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.tree.in_place import WritingOrder
from bln_search.evaluation.tree.tracing import ROOT, NotFollowedError, traced
from bln_search.models.recurrent import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.network_layers import find_norms

Stage = Callable[..., tuple[Any, ...]]
"""From the values that are alive in front of it to those alive behind it."""


@dataclass(frozen=True)
class StagedNetwork:
    """stages[0] leads from the input to the first normalization layer; stages[i] from there to the next, or the end.

    names: of the normalization layers, in the order in which the network first reaches them. layer_of: for each stage
    from the second, the layer that it begins with; one that the network uses several times begins several.
    What a stage passes on is what later stages need: the input of the next normalization layer, what goes around it (a
    residual connection), and numbers read from shapes.
    """

    stages: tuple[Stage, ...]
    names: tuple[str, ...]
    layers: tuple[Normalization, ...]
    layer_of: tuple[int, ...]


def staged(network: nn.Module) -> StagedNetwork:
    """`network` cut at its normalization layers. It must be in evaluation mode.

    Raises NotFollowedError where its forward pass cannot be followed symbolically (it branches on values), ModelError
    where it has several inputs or outputs, or where it normalizes inside recurrent layers.
    """
    layers = find_norms(network)
    check_recurrent(network)
    root, graph = traced(network)
    nodes = [node for node in graph.nodes if node.op != "output"]
    norms = [node for node in nodes if node.op == "call_module" and _name(node) in layers]
    if not norms:
        raise ModelError(f"the forward pass of this {type(network).__name__} reaches none of its normalization layers")
    answer = next(node for node in graph.nodes if node.op == "output").args[0]
    if not isinstance(answer, fx.Node):
        raise ModelError(f"the network returns {type(answer).__name__}: wrap it so that it returns one tensor")
    names = list(dict.fromkeys(_name(node) for node in norms))
    return StagedNetwork(
        _Cutting.of(root, nodes, norms, answer).stages(root),
        tuple(names),
        tuple(layers[name] for name in names),
        tuple(names.index(_name(node)) for node in norms),
    )


def check_recurrent(network: nn.Module) -> None:
    """Raise ModelError where a network normalizes inside recurrent layers."""
    recurrent = [module for module in network.modules() if isinstance(module, RecurrentLayer)]
    if any(isinstance(inner, Normalization) for module in recurrent for inner in module.modules()):
        raise ModelError(
            f"this {type(network).__name__} normalizes inside its recurrent layers, at every time step: its "
            "configurations are those of the whole network; for a word for each layer, normalize behind the layers"
        )


def _name(node: fx.Node) -> str:
    """The name of a module in its network."""
    return str(node.target).removeprefix(ROOT).removeprefix(".")


class _Kind(Enum):
    """What a node of the graph computes."""

    EXAMPLES = "from the values of examples"
    NUMBER = "read from the shape of examples"
    DERIVED = "from numbers and parameters alone: each stage computes it anew"


_METHODS = {"size", "dim", "ndimension", "numel", "nelement", "is_floating_point", "__len__"}
_ATTRIBUTES = {"shape", "ndim", "dtype", "device", "is_cuda", "layout"}


def _reads_number(node: fx.Node) -> bool:
    """Does this node look at a tensor's shape or type, not at its values?"""
    if node.op == "call_method":
        return node.target in _METHODS
    return node.op == "call_function" and node.target is getattr and node.args[1] in _ATTRIBUTES


def _kinds(nodes: Sequence[fx.Node]) -> dict[fx.Node, _Kind]:
    kinds: dict[fx.Node, _Kind] = {}
    for node in nodes:
        from_examples = any(kinds[read] is _Kind.EXAMPLES for read in node.all_input_nodes)
        if node.op == "placeholder":
            kinds[node] = _Kind.EXAMPLES
        elif not from_examples:
            kinds[node] = _Kind.DERIVED
        else:
            kinds[node] = _Kind.NUMBER if _reads_number(node) else _Kind.EXAMPLES
    return kinds


@dataclass(frozen=True)
class _Cutting:
    """Each node with the first stage in which all that it reads is there; a normalization layer begins one of its own.

    own: for each stage, the nodes that it computes, but for derived ones. derived, sources: what a node needs of
    derived nodes, directly or through others, and what it reads of the rest.
    """

    nodes: Sequence[fx.Node]
    stage_of: dict[fx.Node, int]
    own: Sequence[Sequence[fx.Node]]
    derived: dict[fx.Node, set[fx.Node]]
    sources: dict[fx.Node, set[fx.Node]]
    answer: fx.Node

    @staticmethod
    def of(root: nn.Module, nodes: Sequence[fx.Node], norms: Sequence[fx.Node], answer: fx.Node) -> _Cutting:
        """Raises NotFollowedError where a layer or the network answers something that no example has a part in."""
        kinds = _kinds(nodes)
        for node in (*norms, answer):
            if kinds[node] is not _Kind.EXAMPLES:
                raise NotFollowedError(f"{node.name} does not depend on the examples: nothing is to be chosen")
        begins = {node: place for place, node in enumerate(norms, start=1)}
        order = WritingOrder(root)
        stage_of: dict[fx.Node, int] = {}
        derived: dict[fx.Node, set[fx.Node]] = {}
        sources: dict[fx.Node, set[fx.Node]] = {}
        own: list[list[fx.Node]] = [[] for _ in range(len(norms) + 1)]
        for node in nodes:
            read = node.all_input_nodes
            earliest = begins.get(node, max((stage_of[one] for one in read), default=0))
            stage_of[node] = order.stage(node, earliest)
            through = [one for one in read if kinds[one] is _Kind.DERIVED]
            derived[node] = set(through).union(*(derived[one] for one in through))
            sources[node] = (set(read) - set(through)).union(*(sources[one] for one in through))
            if kinds[node] is not _Kind.DERIVED:
                own[stage_of[node]].append(node)
        return _Cutting(nodes, stage_of, own, derived, sources, answer)

    def stages(self, root: nn.Module) -> tuple[Stage, ...]:
        """Each stage as a module of its own."""
        return tuple(self._stage(root, place) for place in range(len(self.own)))

    def _stage(self, root: nn.Module, place: int) -> Stage:
        graph = fx.Graph()
        before = [] if place == 0 else self._alive(place - 1)
        copies = {node: graph.placeholder(node.name) for node in before}
        needed = set(self.own[place]).union(*(self.derived[node] for node in self.own[place]))
        for node in self.nodes:
            if node in needed:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in self._alive(place)))
        return fx.GraphModule(root, graph).eval()

    def _alive(self, place: int) -> list[fx.Node]:
        """What is there behind a stage and needed later."""
        if place == len(self.own) - 1:
            return [self.answer]
        later = [node for nodes in self.own[place + 1 :] for node in nodes]
        wanted = {self.answer}.union(*(self.sources[node] for node in later))
        return [node for node in self.nodes if node in wanted and self.stage_of[node] <= place]


def is_examples(value: Any) -> bool:
    """Is this a tensor of examples, not a number that a network works out from a shape?"""
    return isinstance(value, Tensor) and value.ndim > 0
