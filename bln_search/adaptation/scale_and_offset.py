"""The scales and offsets of normalization layers: the only weights that most methods of adaptation change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization import Normalization


def unfreeze_scales_and_offsets(
    network: nn.Module, adaptation: str, frozen_layers: Sequence[str] = ()
) -> list[nn.Parameter]:
    """Return γ and β of the normalization layers; no other parameter of `network` gets a gradient from now on.

    Args:
        network: With normalization layers of this package.
        adaptation: Name of the method, for messages.
        frozen_layers: Names of modules whose γ and β, and those of all layers in them, stay as they are.

    Raises:
        ModelError: No normalization layer, or none with a trained γ or β; or a name of `frozen_layers` fits no layer.
    """
    layers = {name: layer for name, layer in get_norms_by_name(network).items() if layer.method is not Method.NONE}
    selected = _remove_frozen_layers(layers, frozen_layers)
    trained = [
        parameter
        for layer in selected.values()
        for parameter in (layer.weight, layer.bias)
        if parameter is not None and parameter.requires_grad
    ]
    if not trained:
        raise ModelError(
            f"{adaptation} adapts scale and offset of normalization layers, and this {type(network).__name__} has none "
            "that are trained (requires_grad): choose lame or none, which change no weight, or another network"
        )
    network.requires_grad_(requires_grad=False)
    for parameter in trained:
        parameter.requires_grad = True
    return trained


def _remove_frozen_layers(
    layers: Mapping[str, Normalization], frozen_layers: Sequence[str]
) -> dict[str, Normalization]:
    """Return the layers whose names begin with none of `frozen_layers`. Raises ModelError for one that fits none."""
    for prefix in frozen_layers:
        if not any(_is_in(name, prefix) for name in layers):
            raise ModelError(
                f"frozen_layers names {prefix!r}, and no normalization layer of the network is in it: choose from "
                f"{', '.join(layers)}"
            )
    return {name: layer for name, layer in layers.items() if not any(_is_in(name, prefix) for prefix in frozen_layers)}


def _is_in(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")
