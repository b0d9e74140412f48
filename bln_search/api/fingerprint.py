"""A fingerprint of the parameters of a network, to tell several trained networks apart."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def parameter_fingerprint(network: nn.Module) -> str:
    """Return the SHA-256 of names, types, shapes and values of the parameters.

    Buffers do not count: population values and the applied configuration are buffers.
    """
    digest = hashlib.sha256()
    for name, parameter in sorted(network.named_parameters()):
        values = parameter.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
