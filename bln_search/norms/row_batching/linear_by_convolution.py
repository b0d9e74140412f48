"""Linear layers over many examples by oneDNN, where torch would use MKL.

A linear layer is a convolution of images of one pixel. In single precision on a CPU, torch computes convolutions by
oneDNN and matrix products by MKL, which does not use all instructions of processors of other vendors than Intel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_FEWEST_PRODUCTS = 2**23
_FEWEST_EXAMPLES = 512
_FEWEST_OUTPUTS = 8
"""Products, examples and outputs from which on a convolution takes less time than a matrix product.

oneDNN converts the weights to a layout of its own in each call, which pays for many examples only.
"""

_IMAGES = 16
"""Images from which on torch uses oneDNN for convolutions of one pixel in a single thread.

With several threads, torch always uses it. Examples whose number is not a multiple form one image.
"""


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002 - of torch
    """Return torch's linear layer over (..., D), by a convolution where that takes less time; equal up to rounding.

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
    return (
        all(_is_plain(tensor) for tensor in tensors)
        and type(weight) in (Tensor, nn.Parameter)
        and _have_shapes_of_convolution(x, weight, bias)
        and x.numel() // x.shape[-1] >= _FEWEST_EXAMPLES
        and len(weight) >= _FEWEST_OUTPUTS
        and x.numel() * len(weight) >= _FEWEST_PRODUCTS
        and _is_onednn_used()
    )


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is dense, in single precision and on a CPU."""
    return tensor.dtype == torch.float32 and tensor.device.type == "cpu" and tensor.layout == torch.strided


def _have_shapes_of_convolution(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Return whether a convolution takes these shapes; torch's linear layer takes others too."""
    if weight.ndim != 2 or x.ndim < 2 or x.shape[-1] != weight.shape[1] or not x.numel():
        return False
    return bias is None or bias.shape == weight.shape[:1]


def _is_onednn_used() -> bool:
    onednn = torch.backends.mkldnn
    is_enabled = bool(onednn.enabled) and bool(onednn.is_available())  # type: ignore[no-untyped-call]
    return is_enabled and not torch.is_autocast_enabled("cpu")
