"""Zeros at padded positions, as torch's encoder writes them.

In evaluation mode and without gradients `nn.TransformerEncoder` computes on nested tensors, which hold no padding, and
fills padded positions with zeros after its layers. Norms other than torch's cannot take nested tensors, but a network
that pools over all positions needs the same zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from bln_search.norms.row_batching.row_tensor import RowBatchedTensor

_ENCODER_KEYWORDS = {"src_mask", "is_causal", "src_key_padding_mask"}
"""The keywords with which an encoder calls its layers; a layer with another caller does not change padding."""

_FAST_PATH_DEVICES = ("cpu", "cuda", "xpu")


@dataclass(frozen=True)
class EncoderZeroPaddingHook:
    """A forward hook of an encoder's last layer that writes zeros where the encoder's fast path would.

    Attributes:
        mask_check: whether the encoder uses nested tensors only if padding is at the end of all examples of the
            mini-batch.
    """

    mask_check: bool

    def __call__(self, layer: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> Any:
        """Return the layer's output, with zeros at padded positions where the encoder would write them."""
        mask = kwargs.get("src_key_padding_mask")
        if set(kwargs) != _ENCODER_KEYWORDS or len(args) != 1 or mask is None or kwargs["src_mask"] is not None:
            return output
        if layer.training or torch.is_autocast_enabled() or not torch.backends.mha.get_fastpath_enabled():
            return output
        if self.mask_check and torch.compiler.is_compiling() and not torch.compiler.is_exporting():
            return output  # as the encoder does; an exported program has the outputs of the eager network
        requires_grad = any(parameter.requires_grad for parameter in layer.parameters())
        arguments = (output, args[0], mask, requires_grad, self.mask_check)
        if isinstance(output, fx.Proxy):
            return output.tracer.create_proxy("call_function", fill_padded_positions_with_zeros, arguments, {})
        return fill_padded_positions_with_zeros(*arguments)


def fill_padded_positions_with_zeros(
    output: Tensor,
    src: Tensor,
    mask: Tensor,
    requires_grad: bool,  # noqa: FBT001
    mask_check: bool,  # noqa: FBT001
) -> Tensor:
    """Return `output` with zeros at padded positions; unchanged where torch would not use its fast path.

    Args:
        output: (N, T, D), of the encoder layer.
        src: (N, T, D), input of the encoder layer.
        mask: (N, T), not zero at padded positions.
        requires_grad: whether a parameter of the layer requires a gradient.
        mask_check: see `EncoderZeroPaddingHook`.
    """
    needs_grad = torch.is_grad_enabled() and (requires_grad or src.requires_grad)
    if needs_grad or output.ndim != 3 or not mask.is_floating_point() or output.device.type not in _FAST_PATH_DEVICES:
        return output
    padded = mask != 0
    if mask_check:
        padded = padded & _is_right_padded(padded)
    return output.masked_fill(padded.unsqueeze(-1), 0.0)


def _is_right_padded(padded: Tensor) -> Tensor:
    """Return (N, 1) or (): whether padding is at the end of all examples of the mini-batch that holds the example."""
    inner_padding = padded[:, :-1] & ~padded[:, 1:]
    if not isinstance(padded, RowBatchedTensor):
        return ~inner_padding.any()  # without a view, which would fix the mini-batch size of an exported program
    size = padded.batch_layout.size
    has_inner_padding = inner_padding.any(1).view(-1, size).any(1, keepdim=True)
    return ~has_inner_padding.expand(-1, size).reshape(-1, 1)
