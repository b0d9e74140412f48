"""The networks that are evaluated: lists of them, and fingerprints that recognize the network of population values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bln_search.api.arguments import check_network_is_module
from bln_search.core.errors import ModelError
from bln_search.norms import Normalization
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name

_HALF_PRECISION = torch.float16, torch.bfloat16


@dataclass(frozen=True)
class NetworkFingerprint:
    """What population values of a network depend on.

    Attributes:
        parameters: SHA-256 of the parameters. Equal values have equal fingerprints in every floating-point type.
        buffers: SHA-256 of the buffers outside of the normalization layers.
        rounded: SHA-256 of both in each type of half precision; of a network in half precision in its own type alone.
    """

    parameters: str
    buffers: str
    rounded: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of_network(network: nn.Module, *, is_measured: bool = False) -> NetworkFingerprint:
        """Fingerprint the values that a network has now, in evaluation mode, for which a module may merge weights.

        is_measured: Whether population values are measured with it, which a copy in half precision may get.
        """
        with evaluation_mode(network):
            parameters = [(name, values.detach()) for name, values in _sorted_parameters(network)]
            buffers = list(_iter_state_buffers(network))
            types = {values.dtype for _, values in (*parameters, *buffers) if values.is_floating_point()}
            copies = _HALF_PRECISION if is_measured else ()
            precisions = types if len(types) == 1 and types <= set(_HALF_PRECISION) else copies
            return NetworkFingerprint(
                _compute_sha256((name, _in_smallest_common_type(values)) for name, values in parameters),
                _compute_sha256((name, _in_smallest_common_type(values)) for name, values in buffers),
                {
                    str(precision): _compute_sha256(
                        (name, values.to(precision)) for name, values in parameters + buffers
                    )
                    for precision in precisions
                },
            )

    def describe_difference(self, other: NetworkFingerprint) -> str | None:
        """Return which values of another network differ; None where all are equal, or equal in its half precision."""
        if len(other.rounded) == 1 and other.rounded.items() <= self.rounded.items():
            return None
        if self.parameters != other.parameters:
            return "parameters"
        return None if self.buffers == other.buffers else "buffers"


def parameter_fingerprint(network: nn.Module) -> str:
    """Return the SHA-256 of names, types, shapes and values of the parameters.

    Buffers do not count: population values and the applied configuration are buffers.
    """
    return _compute_sha256(_sorted_parameters(network))


def state_fingerprint(network: nn.Module) -> str:
    """Return the SHA-256 of names, types, shapes and values of parameters and buffers."""
    return _compute_sha256([*network.named_parameters(), *network.named_buffers()])


def name_inside_wrappers(name: str) -> str:
    """The name of a parameter or layer in the network inside of `DataParallel`, `AveragedModel` and `torch.compile`."""
    return re.sub(r"^(_orig_mod\.|module\.)+", "", name)


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
    layers = [
        {name: f"{layer.method} of {layer.num_features} features" for name, layer in get_norms_by_name(member).items()}
        for member in network
    ]
    for position, others in enumerate(layers[1:], start=1):
        if others != layers[0]:
            name = next(name for name in (*layers[0], *others) if layers[0].get(name) != others.get(name))
            raise ModelError(
                f"networks 0 and {position} have different normalization layers: the layer {name} is "
                f"{layers[0].get(name, 'missing')} and {others.get(name, 'missing')}. Networks are compared if they "
                "differ in their weights only"
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


def _sorted_parameters(network: nn.Module) -> list[tuple[str, nn.Parameter]]:
    named = ((name_inside_wrappers(name), parameter) for name, parameter in network.named_parameters())
    return sorted(named, key=lambda pair: pair[0])


def _in_smallest_common_type(values: Tensor) -> Tensor:
    """Return floating-point values in single precision, or in double precision where they need it."""
    single = values.float() if values.is_floating_point() else values
    is_exact = values.dtype != torch.float64 or torch.equal(single.double(), values)
    return single if is_exact else values


def _iter_state_buffers(network: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """Yield the floating-point buffers of the state dict, without those of normalization layers and their parts."""
    of_layers = {
        id(part) for layer in network.modules() if isinstance(layer, Normalization) for part in layer.modules()
    }
    named = ((name_inside_wrappers(f"{prefix}.") or ".", module) for prefix, module in network.named_modules())
    for prefix, module in sorted(named, key=lambda pair: pair[0]):
        for name, buffer in sorted(module.named_buffers(recurse=False)):
            is_saved = name not in module._non_persistent_buffers_set
            if is_saved and buffer.is_floating_point() and id(module) not in of_layers:
                yield f"{prefix}{name}", buffer


def _compute_sha256(tensors: Iterable[tuple[str, Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
