"""A network split before each of its normalization layers, so that it can be resumed at any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.tree.graph.in_place import InPlaceSegmentOrder
from bln_search.evaluation.tree.graph.tracing import ROOT, NotTraceableError, trace_to_root_and_graph
from bln_search.models.recurrent import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.network.layers import get_norms_by_name

Segment = Callable[..., tuple[Any, ...]]
"""A function from the values that enter the segment to those that later segments need."""


@dataclass(frozen=True)
class SegmentedNetwork:
    """A network split at its normalization layers.

    segments[0] computes from the input to before the first normalization layer, segments[i] from the i-th call of a
    normalization layer to before the next one or to the output. A segment returns what later segments need: the input
    of the next normalization layer, values that bypass it (residual connections), and numbers read from shapes.

    Attributes:
        segments: empty for a network that cannot be split.
        names: of the normalization layers, in the order of their first call.
        layers: the normalization layers, in the same order.
        layer_of: for each segment from the second, the index of the layer with which it begins; a layer that the
            network calls several times begins several segments.
    """

    segments: tuple[Segment, ...]
    names: tuple[str, ...]
    layers: tuple[Normalization, ...]
    layer_of: tuple[int, ...]


def split_at_norms(network: nn.Module) -> SegmentedNetwork:
    """Split `network` at its normalization layers. It must be in evaluation mode.

    Raises:
        NotTraceableError: the forward pass cannot be traced, as it branches on values.
        ModelError: the network has several inputs or outputs, or normalizes inside recurrent layers.
    """
    layers = get_norms_by_name(network)
    check_no_norms_in_recurrent_layers(network)
    root, graph = trace_to_root_and_graph(network)
    nodes = [node for node in graph.nodes if node.op != "output"]
    norms = [node for node in nodes if node.op == "call_module" and _called_module_name(node) in layers]
    if not norms:
        raise ModelError(f"the forward pass of this {type(network).__name__} calls none of its normalization layers")
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    if not isinstance(output, fx.Node):
        raise ModelError(f"the network returns {type(output).__name__}: wrap it so that it returns one tensor")
    names = list(dict.fromkeys(_called_module_name(node) for node in norms))
    return SegmentedNetwork(
        _GraphPartition.from_nodes(root, nodes, norms, output).build_segments(root),
        tuple(names),
        tuple(layers[name] for name in names),
        tuple(names.index(_called_module_name(node)) for node in norms),
    )


def check_no_norms_in_recurrent_layers(network: nn.Module) -> None:
    """Raise ModelError where a network normalizes inside recurrent layers."""
    recurrent = [module for module in network.modules() if isinstance(module, RecurrentLayer)]
    if any(isinstance(inner, Normalization) for module in recurrent for inner in module.modules()):
        raise ModelError(
            f"this {type(network).__name__} normalizes inside its recurrent layers, at every time step, and supports "
            "only one configuration for the whole network; for per-layer configurations normalize after the layers"
        )


def _called_module_name(node: fx.Node) -> str:
    return str(node.target).removeprefix(ROOT).removeprefix(".")


class _NodeKind(Enum):
    EXAMPLES = "depends on the values of examples"
    NUMBER = "read from the shape of examples"
    DERIVED = "depends on numbers and parameters only: each segment computes it again"


_METHODS = {"size", "dim", "ndimension", "numel", "nelement", "is_floating_point", "__len__"}
_ATTRIBUTES = {"shape", "ndim", "dtype", "device", "is_cuda", "layout"}


def _reads_shape_or_dtype(node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target in _METHODS
    return node.op == "call_function" and node.target is getattr and node.args[1] in _ATTRIBUTES


def _node_kinds(nodes: Sequence[fx.Node]) -> dict[fx.Node, _NodeKind]:
    kinds: dict[fx.Node, _NodeKind] = {}
    for node in nodes:
        uses_examples = any(kinds[argument] is _NodeKind.EXAMPLES for argument in node.all_input_nodes)
        if node.op == "placeholder":
            kinds[node] = _NodeKind.EXAMPLES
        elif not uses_examples:
            kinds[node] = _NodeKind.DERIVED
        else:
            kinds[node] = _NodeKind.NUMBER if _reads_shape_or_dtype(node) else _NodeKind.EXAMPLES
    return kinds


@dataclass(frozen=True)
class _GraphPartition:
    """Partition of the graph: each node in the first segment in which its arguments exist.

    Each call of a normalization layer begins a segment.

    Attributes:
        nodes: all nodes in the order of the program.
        segment_of: the segment of each node.
        computed: for each segment, the nodes that it computes, except derived ones.
        derived: for each node, the derived nodes that it needs, directly or indirectly.
        sources: for each node, the other nodes that it needs, directly or through derived ones.
        output: the node of the network's output.
    """

    nodes: Sequence[fx.Node]
    segment_of: dict[fx.Node, int]
    computed: Sequence[Sequence[fx.Node]]
    derived: dict[fx.Node, set[fx.Node]]
    sources: dict[fx.Node, set[fx.Node]]
    output: fx.Node

    @staticmethod
    def from_nodes(
        root: nn.Module, nodes: Sequence[fx.Node], norms: Sequence[fx.Node], output: fx.Node
    ) -> _GraphPartition:
        """Partition the graph.

        Raises:
            NotTraceableError: a normalization layer or the output does not depend on the examples.
        """
        kinds = _node_kinds(nodes)
        for node in (*norms, output):
            if kinds[node] is not _NodeKind.EXAMPLES:
                raise NotTraceableError(f"{node.name} does not depend on the examples: there is nothing to configure")
        segment_of_norm = {node: segment for segment, node in enumerate(norms, start=1)}
        order = InPlaceSegmentOrder(root)
        segment_of: dict[fx.Node, int] = {}
        derived: dict[fx.Node, set[fx.Node]] = {}
        sources: dict[fx.Node, set[fx.Node]] = {}
        computed: list[list[fx.Node]] = [[] for _ in range(len(norms) + 1)]
        for node in nodes:
            arguments = node.all_input_nodes
            earliest = segment_of_norm.get(node, max((segment_of[argument] for argument in arguments), default=0))
            segment_of[node] = order.place_in_earliest_segment(node, earliest)
            derived_arguments = [argument for argument in arguments if kinds[argument] is _NodeKind.DERIVED]
            derived[node] = set(derived_arguments).union(*(derived[argument] for argument in derived_arguments))
            sources[node] = (set(arguments) - set(derived_arguments)).union(
                *(sources[argument] for argument in derived_arguments)
            )
            if kinds[node] is not _NodeKind.DERIVED:
                computed[segment_of[node]].append(node)
        return _GraphPartition(nodes, segment_of, computed, derived, sources, output)

    def build_segments(self, root: nn.Module) -> tuple[Segment, ...]:
        return tuple(self._build_segment(root, index) for index in range(len(self.computed)))

    def _build_segment(self, root: nn.Module, index: int) -> Segment:
        graph = fx.Graph()
        inputs = [] if index == 0 else self._nodes_needed_later(index - 1)
        copies = {node: graph.placeholder(node.name) for node in inputs}
        needed = set(self.computed[index]).union(*(self.derived[node] for node in self.computed[index]))
        for node in self.nodes:
            if node in needed:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in self._nodes_needed_later(index)))
        return fx.GraphModule(root, graph).eval()

    def _nodes_needed_later(self, index: int) -> list[fx.Node]:
        if index == len(self.computed) - 1:
            return [self.output]
        later = [node for nodes in self.computed[index + 1 :] for node in nodes]
        needed = {self.output}.union(*(self.sources[node] for node in later))
        return [node for node in self.nodes if node in needed and self.segment_of[node] <= index]


def is_example_tensor(value: Any) -> bool:
    """Return whether a value that enters a segment is a tensor of examples, not a number read from a shape."""
    return isinstance(value, Tensor) and value.ndim > 0
