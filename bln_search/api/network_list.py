"""Several trained networks that are evaluated together."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from bln_search.api.arguments import check_network_is_module
from bln_search.api.fingerprint import parameter_fingerprint
from bln_search.core.errors import ModelError
from bln_search.norms.network.layers import get_norms_by_name


def parse_networks(network: nn.Module | Sequence[nn.Module], call: str) -> list[nn.Module]:
    """The networks to evaluate. A module that is itself a sequence, as `nn.Sequential`, is one network.

    `call` is how the function is called, for the message.

    Raises:
        ModelError: One of them is not a network, has no normalization layers, or has others than the first one.
    """
    if isinstance(network, nn.Module):
        return [network]
    if not isinstance(network, list | tuple):
        check_network_is_module(network, call)
    if not network:
        raise ModelError("the list of networks is empty: give at least one network")
    for member in network:
        check_network_is_module(member, call)
    layers = [_describe_layers_by_name(member) for member in network]
    for position, others in enumerate(layers[1:], start=1):
        if others != layers[0]:
            raise ModelError(
                f"networks 0 and {position} have different normalization layers: "
                f"{_describe_first_difference(layers[0], others)}. "
                "Networks are compared if they differ in their weights only"
            )
    return list(network)


def compute_fingerprints_unless_equal(networks: Sequence[nn.Module]) -> tuple[str, ...]:
    """A fingerprint of each of several networks; empty for one network.

    Raises:
        ModelError: Two networks have equal parameters.
    """
    if len(networks) < 2:
        return ()
    fingerprints = [parameter_fingerprint(network) for network in networks]
    for position, fingerprint in enumerate(fingerprints):
        first = fingerprints.index(fingerprint)
        if first < position:
            raise ModelError(
                f"networks {first} and {position} have equal parameters: a comparison over networks needs networks "
                "that were trained independently, each once"
            )
    return tuple(fingerprints)


def _describe_layers_by_name(network: nn.Module) -> dict[str, str]:
    """Method and number of features of each normalization layer, by name."""
    return {
        name: f"{layer.method} of {layer.num_features} features" for name, layer in get_norms_by_name(network).items()
    }


def _describe_first_difference(first: dict[str, str], second: dict[str, str]) -> str:
    """The first layer in which two networks differ."""
    name = next(name for name in (*first, *second) if first.get(name) != second.get(name))
    return f"the layer {name} is {first.get(name, 'missing')} and {second.get(name, 'missing')}"
