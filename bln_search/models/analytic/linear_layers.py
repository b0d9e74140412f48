"""Mean and variance of the output of each linear and convolution layer of a network without normalization."""

from __future__ import annotations

from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.models.analytic.graph import (
    LinearOrConvolution,
    PropagationProgramBuilder,
    find_called_module,
    shape_with_one_value_per_channel,
    trace_with_shapes,
)
from bln_search.norms import Normalization
from bln_search.norms.analytic.moment_rules import ConstantMomentsRule, IdentityRule, MomentRule, StandardMomentsRule
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.analytic.propagation_program import PropagationProgram


def build_linear_layer_moment_programs(
    network: nn.Module, example: Tensor, input_moments: MeanVariance | None, *, advice: str
) -> dict[nn.Module, PropagationProgram]:
    """Return for each linear or convolution layer the program to mean and variance of its output.

    Outputs of the linear layers in front of it have mean 0 and variance 1 in each feature, as after scaling.
    Normalization layers change nothing.

    Args:
        network: with one input.
        example: an input (N, ...) of the network; its values do not matter.
        input_moments: of an example that enters the network; None for mean 0 and variance 1.
        advice: what to do if the network cannot be traced or has an operation without a rule, for the message.

    Raises:
        ModelError: the network cannot be traced, or an operation has no rule. The message names it.
    """
    graph = trace_with_shapes(network, example, advice=advice)
    programs: dict[nn.Module, PropagationProgram] = {}
    for node in graph.nodes:
        module = find_called_module(node, network)
        if isinstance(module, LinearOrConvolution):
            builder = _LinearProgramBuilder(network, node, input_moments, advice=advice)
            try:
                programs[module] = builder.build_program_to(node)
            except ModelError as error:
                raise ModelError(f"layer {node.target}: {error}") from None
    return programs


class _LinearProgramBuilder(PropagationProgramBuilder):
    """Makes the program from the linear layers in front to the output of `target`."""

    def __init__(self, network: nn.Module, target: fx.Node, input_moments: MeanVariance | None, *, advice: str) -> None:
        super().__init__(network, advice=advice)
        self.target, self.input_moments = target, input_moments

    def find_origin_rule(self, node: fx.Node) -> MomentRule | None:
        """Return the rule of a linear layer in front or of the network's input."""
        module = find_called_module(node, self.network)
        if isinstance(module, LinearOrConvolution) and node is not self.target:
            return StandardMomentsRule(module, shape_with_one_value_per_channel(node.meta["shape"]))
        if node.op == "placeholder":
            target = find_called_module(self.target, self.network)
            assert target is not None
            given = self.input_moments
            return (
                StandardMomentsRule(target, shape_with_one_value_per_channel(node.meta["shape"]))
                if given is None
                else ConstantMomentsRule(given)
            )
        return None

    def get_operation_rule(self, node: fx.Node) -> MomentRule:
        """Return the rule of an operation; a normalization layer has no effect."""
        is_norm = isinstance(find_called_module(node, self.network), Normalization)
        return IdentityRule() if is_norm else super().get_operation_rule(node)
