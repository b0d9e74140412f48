"""Convolutions in pieces of examples whose output stays in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CONVOLUTIONS: frozenset[Callable[..., Any]] = frozenset({F.conv2d, torch.conv2d})
"""The functions that `convolve_in_pieces` replaces."""

_PIECE_BYTES = 2**22
"""Bytes of the output of a piece."""

_BLOCK = 16
"""oneDNN computes in blocks of this many channels, fewer are filled up."""


def convolve_in_pieces(x: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a convolution of images (examples, C, H, W), computed by torch in pieces of examples.

    oneDNN fills up the channels of its output to a multiple of 16 before it converts it to the layout of torch. With
    few channels this is several times the output. The pieces keep it in the cache.

    Args:
        x: images.
        weight: of the convolution.
        args: further arguments of torch's function.
        kwargs: further arguments of torch's function.
    """
    step = _examples_of_piece(x, weight)
    if step >= len(x):
        return torch.conv2d(x, weight, *args, **kwargs)
    first = torch.conv2d(x[:step], weight, *args, **kwargs)
    out = first.new_empty(len(x), *first.shape[1:])
    out[:step] = first
    for start in range(step, len(x), step):
        out[start : start + step] = torch.conv2d(x[start : start + step], weight, *args, **kwargs)
    return out


def _examples_of_piece(x: Tensor, weight: Tensor) -> int:
    """Return the number of examples of a piece; all where the output has whole blocks of channels."""
    channels = len(weight)
    if x.ndim != 4 or x.dtype != torch.float32 or x.device.type != "cpu" or channels % _BLOCK == 0:
        return len(x)
    padded = -(-channels // _BLOCK) * _BLOCK
    size = padded * x.shape[2] * x.shape[3] * x.element_size()
    pieces = -(-len(x) * size // _PIECE_BYTES)
    return max(1, -(-len(x) // max(1, pieces)))
