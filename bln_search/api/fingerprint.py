"""Fingerprints of the parameters and buffers of a network, to recognize the network of population values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bln_search.norms import Normalization
from bln_search.norms.network.layers import evaluation_mode


@dataclass(frozen=True)
class NetworkFingerprint:
    """What population values of a network depend on.

    Attributes:
        parameters: SHA-256 of the parameters. Equal values have equal fingerprints in every floating-point type.
        buffers: SHA-256 of the buffers outside of the normalization layers.
    """

    parameters: str
    buffers: str

    @staticmethod
    def of_network(network: nn.Module) -> NetworkFingerprint:
        """Fingerprint the values that a network has now, in evaluation mode, for which a module may merge weights."""
        with evaluation_mode(network):
            parameters = sorted(network.named_parameters(), key=lambda named: named[0])
            return NetworkFingerprint(
                *(
                    _compute_sha256((name, _in_smallest_common_type(values.detach())) for name, values in tensors)
                    for tensors in (parameters, _iter_state_buffers(network))
                )
            )

    def describe_difference(self, other: NetworkFingerprint) -> str | None:
        """Return which values differ; None where all are equal."""
        if self.parameters != other.parameters:
            return "parameters"
        return None if self.buffers == other.buffers else "buffers"


def parameter_fingerprint(network: nn.Module) -> str:
    """Return the SHA-256 of names, types, shapes and values of the parameters.

    Buffers do not count: population values and the applied configuration are buffers.
    """
    return _compute_sha256(sorted(network.named_parameters(), key=lambda named: named[0]))


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
    for prefix, module in sorted(network.named_modules(), key=lambda named: named[0]):
        for name, buffer in sorted(module.named_buffers(recurse=False)):
            is_saved = name not in module._non_persistent_buffers_set
            if is_saved and buffer.is_floating_point() and id(module) not in of_layers:
                yield f"{prefix}.{name}", buffer


def _compute_sha256(tensors: Iterable[tuple[str, Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
