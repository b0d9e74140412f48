"""Linear layers over many examples by oneDNN, where torch would use MKL.

A linear layer is a convolution of images of one pixel. In single precision on a CPU, torch computes convolutions by
oneDNN and matrix products by MKL, which does not use all instructions of processors of other vendors than Intel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_FEWEST_PRODUCTS = 2**23
"""Products from which on a convolution takes less time than a matrix product."""

_IMAGES = 16
"""Images from which on torch uses oneDNN for convolutions of one pixel in a single thread."""


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002 - of torch
    """Return torch's linear layer over (..., D), by a convolution where that takes less time.

    Args:
        input: any number of examples.
        weight: (K, D).
        bias: (K,).
    """
    if not _is_convolution_faster(input, weight, bias):
        return F.linear(input, weight, bias)
    units = weight.shape[1]
    rows = input.reshape(-1, units)
    images = _IMAGES if len(rows) % _IMAGES == 0 else 1
    pixels = rows.view(images, len(rows) // images, 1, units).permute(0, 3, 1, 2)  # channels last
    outputs = torch.conv2d(pixels, weight[:, :, None, None], bias)
    return outputs.permute(0, 2, 3, 1).reshape(*input.shape[:-1], len(weight))


def _is_convolution_faster(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" for tensor in tensors):
        return False
    if type(weight) not in (Tensor, nn.Parameter) or weight.ndim != 2 or x.ndim < 2 or x.shape[-1] != weight.shape[1]:
        return False
    onednn = torch.backends.mkldnn
    has_onednn = bool(onednn.enabled) and bool(onednn.is_available())  # type: ignore[no-untyped-call]
    return has_onednn and x.numel() * len(weight) >= _FEWEST_PRODUCTS and not torch.is_autocast_enabled("cpu")
