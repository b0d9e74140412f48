"""Arguments of a conversion to methods whose statistics come from the weights."""

from __future__ import annotations

from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.core.method import Method


def is_analytic_method(method: Method | str) -> bool:
    """Whether the statistics of a method come from the weights."""
    return method in list(Method) and Method(method).computes_statistics_from_weights


def check_example_inputs_given_if_needed(
    network: nn.Module, method: Method | str, example_inputs: Tensor | None
) -> None:
    """Raise ModelError unless the inputs are given where a method needs them, and only there."""
    if is_analytic_method(method) and not isinstance(example_inputs, Tensor):
        raise ModelError(
            f"{method} needs a mini-batch of inputs to find the weights in front of each layer: call "
            f'convert(network, method="{method}", example_inputs=inputs)'
        )
    if not is_analytic_method(method) and example_inputs is not None:
        methods = ", ".join(known for known in Method if known.computes_statistics_from_weights)
        raise ModelError(f"example_inputs belongs to {methods}, not to {method}: remove it")
    if is_analytic_method(method) and not any(module is not network for module in network.modules()):
        raise ModelError(f"{method} needs the weights in front of a normalization layer: give the whole network")
