"""Each layer with analytic statistics is bound to the operations in front of it, found by tracing the forward pass."""

from __future__ import annotations

from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.inputs import Inputs
from bln_search.models.analytic.graph import (
    LinearOrConvolution,
    PropagationProgramBuilder,
    find_called_module,
    shape_with_one_value_per_channel,
    trace_with_shapes,
)
from bln_search.models.recurrent.layer import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.norms.analytic.moment_rules import MomentRule, NetworkInputRule, NormOutputRule, StandardMomentsRule
from bln_search.norms.analytic.propagation_program import PropagationProgram, PropagationStep

_TRACE_ADVICE = "use a method whose statistics come from the mini-batch"
_RULE_ADVICE = (
    "use the method wn, which reads the weights directly in front of a normalization layer, or one whose statistics "
    "come from the mini-batch"
)


def bind_analytic_layers(network: nn.Module, example: Inputs) -> nn.Module:
    """Bind each layer with analytic statistics of a network to the layers in front of it.

    Layers inside recurrent cells are bound already. Without others the network is not traced. Networks are bound once,
    after they are built; a copy of a bound network is bound.

    Args:
        network: with one input, unless it has no such layer.
        example: inputs of N examples; their values do not matter.

    Returns:
        The network.

    Raises:
        ModelError: the network cannot be traced, has an operation without a rule, or, with the method `wn`, a
            normalization layer that is not directly behind a linear or convolution layer. The message names it.
    """
    in_cells = {inner for cell in network.modules() if isinstance(cell, RecurrentLayer) for inner in cell.modules()}
    layers = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, NormalizationFromWeights) and module not in in_cells
    }
    if not layers:
        return network
    example = require_single_tensor_for_purpose(example, "a method with statistics from the weights")
    graph = trace_with_shapes(network, example, advice=_TRACE_ADVICE)
    calls = [node for node in graph.nodes if node.op == "call_module" and node.target in layers]
    for node in calls:
        layer = layers[str(node.target)]
        try:
            layer.propagation = _NormProgramBuilder(network, layer).build_program_of_call(node)
        except ModelError as error:
            raise ModelError(f"normalization layer {node.target} ({layer.method}): {error}") from None
    return network


def set_ap2_input_moments(network: nn.Module, mean: Tensor, variance: Tensor) -> None:
    """Give the method `ap2` mean and variance of the examples that enter a network; by default they are 0 and 1.

    Args:
        network: bound.
        mean: of an example's shape, such as (C, H, W), or (C, 1, 1) for one value of each channel.
        variance: likewise.
    """
    for layer in network.modules():
        if isinstance(layer, NormalizationFromWeights) and layer.reads_input_moments and layer.input_mean is not None:
            layer.input_mean, layer.input_variance = (
                value.detach().to(layer.weight.device, layer.weight.dtype).clone() for value in (mean, variance)
            )


class _NormProgramBuilder(PropagationProgramBuilder):
    """Makes the program from the layers in front of one normalization layer to its input."""

    def __init__(self, network: nn.Module, layer: NormalizationFromWeights) -> None:
        super().__init__(network, advice=_RULE_ADVICE)
        self.layer = layer

    def build_program_of_call(self, call: fx.Node) -> PropagationProgram:
        """Return the program for a call of the layer."""
        source = call.all_input_nodes[0]
        return (
            self._build_program_from_weights(source)
            if self.layer.method.description.needs_weights_in_front
            else self.build_program_to(source)
        )

    def _build_program_from_weights(self, source: fx.Node) -> PropagationProgram:
        """Return the program of a linear or convolution layer whose inputs have mean 0 and variance 1."""
        module = find_called_module(source, self.network)
        if not isinstance(module, LinearOrConvolution):
            raise ModelError(
                f"it is behind {source.target}, not behind a linear or convolution layer, so that it has no weights: "
                "place it before the nonlinearity"
            )
        shape = source.all_input_nodes[0].meta["shape"]
        return PropagationProgram(
            [
                PropagationStep(StandardMomentsRule(module, shape_with_one_value_per_channel(shape))),
                PropagationStep(self.get_operation_rule(source), (0,)),
            ]
        )

    def find_origin_rule(self, node: fx.Node) -> MomentRule | None:
        """Return the rule of a normalization layer in front or of the network's input."""
        norm = find_called_module(node, self.network)
        if isinstance(norm, Normalization):
            shape = norm.input_axes(len(node.meta["shape"]) + 1).broadcast_shape(norm.num_features)[1:]
            is_assumed = self.layer.assumes_standard_inputs
            return StandardMomentsRule(norm, shape) if is_assumed else NormOutputRule(norm, shape)
        if node.op == "placeholder":
            self._set_default_input_moments(shape_with_one_value_per_channel(node.meta["shape"]))
            return NetworkInputRule(self.layer)
        return None

    def _set_default_input_moments(self, shape: tuple[int, ...]) -> None:
        """Give the layer mean 0 and variance 1 of the network's input."""
        weight = self.layer.weight
        self.layer.input_mean, self.layer.input_variance = weight.new_zeros(shape), weight.new_ones(shape)
