"""Conversion to methods whose statistics come from the weights: binding, and gains that preserve the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from bln_search.models.analytic import bind_analytic_layers
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.norms.network.layer_calls import observe_layer_calls
from bln_search.norms.network.layers import evaluation_mode


def bind_layers_preserving_outputs(
    network: nn.Module, replacement_of: Mapping[nn.Module, nn.Module], example_inputs: Tensor
) -> None:
    """Bind the new layers of a network, and set their γ and β so that its outputs in evaluation mode stay the same.

    A layer that replaces one without running statistics keeps γ and β. `replacement_of` has the new layer, or a module
    with it inside, of each replaced one. Raises ModelError if a layer cannot be bound.
    """
    bind_analytic_layers(network, example_inputs)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(evaluation_mode(network))
        for original, replacement in replacement_of.items():
            for layer in replacement.modules():
                if isinstance(layer, NormalizationFromWeights) and layer.propagation is not None:
                    stack.enter_context(
                        observe_layer_calls([layer], partial(_set_gain_and_bias_like_original, original))
                    )
        network(example_inputs)


def _set_gain_and_bias_like_original(original: nn.Module, layer: nn.Module, _input: Tensor) -> None:
    """Set γ and β of a layer before its first call; those of the layers in front are set already.

    γ (x − μ)/σ + β with running μ and σ equals γ' (x − E)/Std + β' with γ' = γ·Std/σ, β' = β + γ·(E − μ)/σ.
    """
    assert isinstance(layer, NormalizationFromWeights)
    mean, variance = getattr(original, "running_mean", None), getattr(original, "running_var", None)
    if mean is None or variance is None:
        return
    scale = layer.weight.detach() / torch.sqrt(variance + original.eps)
    analytic = layer.input_moments_from_weights()
    deviation = torch.sqrt(analytic.variance + layer.formula_variant.epsilon).flatten()
    layer.bias.add_(scale * (analytic.mean.flatten() - mean))
    layer.weight.copy_(scale * deviation)
