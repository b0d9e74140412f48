"""Scaling of a network's weights layer by layer, with normalization layers that preserve its function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bln_search.core.errors import ModelError
from bln_search.models.analytic import build_linear_layer_moment_programs
from bln_search.models.analytic.graph import LinearOrConvolution
from bln_search.models.recurrent.layer import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs.sections.initialization import InitializationSpec, ScalingStatistics
from bln_search.training.initialization.introduction import set_affine_to_preserve_input_plus_shift
from bln_search.training.initialization.scaling import (
    ScalingRule,
    make_analytic_scaling_rule,
    make_mini_batch_scaling_rule,
    reshape_to_broadcast_over_output,
)

_ADVICE = "use the statistics bn, or none"
_NOT_SCALED = (RecurrentLayer, nn.RNNBase, nn.MultiheadAttention, nn.modules.conv._ConvTransposeNd)


def scale_weights_and_set_norm_parameters(
    network: nn.Module,
    inputs: Tensor,
    spec: InitializationSpec,
    *,
    seed: int,
    input_moments: MeanVariance | None = None,
) -> None:
    """Scale the weights of `network` in place, then set γ and β of its normalization layers.

    The plain network is `network` without its normalization layers. In the order of execution, the output x of each
    linear or convolution layer becomes (x − μ)·s/σ in the plain network, by its weights and its bias; without a bias
    the normalization layer behind it adds −μ·s/σ. Where the function is preserved, each normalization layer, with mean
    E and deviation Std of its method for this mini-batch, gets γ = Std and β = E. Dropout is disabled meanwhile.

    Args:
        network: with the weights that were drawn; analytic layers are bound.
        inputs: a mini-batch (N, ...) of training.
        spec: statistics, gain, and whether the function is preserved.
        seed: of uniform gains.
        input_moments: of an example that enters the network, for the statistics `ap2`; None for mean 0 and variance 1.

    Raises:
        ModelError: a layer cannot be scaled, or a normalization layer cannot preserve the function. The message names
            it. The network is unchanged.

    Source: Shekhovtsov & Flach 2018, section 5; with the statistics `bn` and the method `wn`, Salimans & Kingma 2016,
    section 3.
    """
    rule = _find_scaling_rule(network, inputs, spec, seed, input_moments)
    with torch.no_grad(), evaluation_mode(network), _restore_parameters_on_error(network):
        _InitializationPass(network, rule, preserve_function=spec.preserve_function).set_layers(inputs)


def _find_scaling_rule(
    network: nn.Module, inputs: Tensor, spec: InitializationSpec, seed: int, input_moments: MeanVariance | None
) -> ScalingRule | None:
    if spec.statistics is ScalingStatistics.NONE:
        return None
    for name, module in network.named_modules():
        if isinstance(module, _NOT_SCALED):
            raise ModelError(
                f"layer {name} ({type(module).__name__}) cannot be scaled by the statistics {spec.statistics}, only "
                "linear and convolution layers: use the statistics none"
            )
    if spec.statistics is ScalingStatistics.AP2:
        return make_analytic_scaling_rule(
            build_linear_layer_moment_programs(network, inputs, input_moments, advice=_ADVICE)
        )
    return make_mini_batch_scaling_rule(torch.Generator().manual_seed(seed) if spec.gain == "uniform" else None)


class _InitializationPass:
    """One forward pass of the plain network, in which each layer is set before its output is used."""

    def __init__(self, network: nn.Module, rule: ScalingRule | None, *, preserve_function: bool) -> None:
        self.network, self.rule, self.preserve_function = network, rule, preserve_function
        self.calls: Counter[nn.Module] = Counter()
        self.owner_of: dict[Tensor, str] = {}
        """The normalization layer that set each γ and β."""
        self.shifts: list[tuple[str, Tensor, Tensor]] = []
        """Layers without a bias, their outputs, and the shifts that the normalization layers behind them add."""

    def set_layers(self, inputs: Tensor) -> None:
        with ExitStack() as stack:
            for name, module in self.network.named_modules():
                if isinstance(module, Normalization):
                    stack.enter_context(_replace_forward(module, partial(self._introduce_norm, name, module)))
                elif isinstance(module, LinearOrConvolution) and self.rule is not None:
                    hook = module.register_forward_hook(partial(self._scale_layer, name))
                    stack.callback(hook.remove)
            self.network(inputs)
        if self.shifts:
            raise ModelError(
                f"layer {self.shifts[0][0]} has neither a bias nor a normalization layer directly behind it, so that "
                "the mean of its output cannot be removed: give it a bias, or use the statistics none"
            )

    def _scale_layer(self, name: str, layer: LinearOrConvolution, args: Sequence[Any], output: Tensor) -> Tensor:  # noqa: ARG002
        """Scale the weights of a layer; return its new output."""
        self._check_called_once(name, layer)
        if parametrize.is_parametrized(layer):
            raise ModelError(f"layer {name} has parametrized weights, which cannot be scaled: remove parametrizations")
        assert self.rule is not None
        try:
            scaling = self.rule(layer, output)
        except ModelError as error:
            raise ModelError(f"layer {name}: {error}") from None
        factor, mean = scaling.factor, scaling.mean
        layer.weight.mul_(factor.view(-1, *[1] * (layer.weight.ndim - 1)))
        if layer.bias is not None:
            layer.bias.sub_(mean).mul_(factor)
            return (
                output - reshape_to_broadcast_over_output(mean, layer, output.ndim)
            ) * reshape_to_broadcast_over_output(factor, layer, output.ndim)
        scaled = output * reshape_to_broadcast_over_output(factor, layer, output.ndim)
        self.shifts.append((name, scaled, -mean * factor))
        return scaled

    def _introduce_norm(self, name: str, layer: Normalization, x: Tensor) -> Tensor:
        """Set γ and β of a normalization layer; return its output in the plain network."""
        shift = next((shift for _, output, shift in self.shifts if output is x), None)
        self.shifts = [entry for entry in self.shifts if entry[1] is not x]
        is_set = shift is not None or self.preserve_function
        if is_set:
            self._check_called_once(name, layer)
            self._claim_parameters(name, layer)
        try:
            return set_affine_to_preserve_input_plus_shift(layer, x, shift, preserve_function=self.preserve_function)
        except ModelError as error:
            raise ModelError(f"normalization layer {name} ({layer.method}): {error}") from None

    def _check_called_once(self, name: str, layer: nn.Module) -> None:
        self.calls[layer] += 1
        if self.calls[layer] > 1:
            raise ModelError(
                f"layer {name} is used more than once in a forward pass, so that it has no single mean and deviation: "
                "use a layer for each of its uses"
            )

    def _claim_parameters(self, name: str, layer: Normalization) -> None:
        for parameter in layer.parameters(recurse=False) if layer.method.statistics else ():
            owner = self.owner_of.setdefault(parameter, name)
            if owner != name:
                raise ModelError(
                    f"the normalization layers {owner} and {name} share γ or β, which cannot preserve the function of "
                    "both: set preserve_function to false"
                )


@contextmanager
def _replace_forward(layer: nn.Module, forward: Any) -> Iterator[None]:
    """Call `forward` in this context in place of the forward pass of a layer, which then records nothing."""
    layer.forward = forward
    try:
        yield
    finally:
        del layer.forward


@contextmanager
def _restore_parameters_on_error(network: nn.Module) -> Iterator[None]:
    with ExitStack() as restoration:
        for parameter in network.parameters():
            restoration.callback(parameter.copy_, parameter.clone())
        yield
        restoration.pop_all()
