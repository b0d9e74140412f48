"""A digest of everything that a network holds: state, attributes, hooks, modes, gradients, and their identities."""

from __future__ import annotations

import hashlib
import random
from collections import deque

import numpy as np
import torch
from torch import nn

from bln_search.norms.normalization_base import NormalizationBase


def digest_of(network):
    """A digest of a network; it differs where any tensor, attribute, hook or mode differs."""
    digest = hashlib.sha256()
    for part in _describe(network, set()):
        digest.update(repr(part).encode())
    return digest.hexdigest()


def _describe(value, seen):  # noqa: C901, PLR0912 - one case for each kind
    """Every part of an object, in a fixed order; an object that was seen counts by its identity."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype | torch.device):
        yield value
        return
    yield id(value)
    if id(value) in seen:
        return
    seen.add(id(value))
    match value:
        case torch.Tensor():
            yield value.shape, value.dtype, value.requires_grad, value.grad is None
            yield value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b""
        case np.ndarray():
            yield value.tobytes()
        case torch.Generator():
            yield value.get_state().numpy().tobytes()
        case np.random.Generator():
            yield value.bit_generator.state
        case random.Random():
            yield value.getstate()
        case dict():
            for key, item in value.items():
                yield key if isinstance(key, str | int) else id(key)
                yield from _describe(item, seen)
        case list() | tuple() | deque():
            for item in value:
                yield from _describe(item, seen)
        case set() | frozenset():
            yield sorted(map(str, value))
        case torch.jit.ScriptModule():
            for tensor in (*value.parameters(), *value.buffers()):
                yield tensor.detach().numpy().tobytes()
        case nn.Module():
            yield from _describe_attributes(value, seen)
        case _ if type(value).__module__.startswith("tests."):
            yield from _describe_attributes(value, seen)


def _describe_attributes(value, seen):
    """The attributes by name; BLN layers without a mini-batch size are given one, as documented."""
    is_bln = isinstance(value, NormalizationBase) and value.has_batch_statistics and value.has_feature_statistics
    for name, item in sorted(vars(value).items()):
        if not (is_bln and name == "batch_size"):
            yield name
            yield from _describe(item, seen)
