"""Zeros where torch's encoder puts them.

In evaluation mode and without gradients `nn.TransformerEncoder` computes on nested tensors, which hold no padding, and
behind its layers fills up with zeros. Norms that are not torch's cannot take nested tensors, but a network that pools
over all positions has to find the same zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from bln_search.norms.row_tensor import Examples

_FROM_ENCODER = {"src_mask", "is_causal", "src_key_padding_mask"}
"""The keywords with which an encoder calls its layers; a layer that is called by others leaves padding as it is."""

_DEVICES = ("cpu", "cuda", "xpu")


@dataclass(frozen=True)
class ZeroPadding:
    """A forward hook of an encoder's last layer: zeros at padded positions, where the encoder would have put them.

    mask_check: does the encoder compute on nested tensors only where padding stands at the end, in all examples of the
    mini-batch?
    """

    mask_check: bool

    def __call__(self, layer: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> Any:
        """The layer's output, with zeros or as it is."""
        mask = kwargs.get("src_key_padding_mask")
        if set(kwargs) != _FROM_ENCODER or len(args) != 1 or mask is None or kwargs["src_mask"] is not None:
            return output
        if layer.training or torch.is_autocast_enabled() or not torch.backends.mha.get_fastpath_enabled():
            return output
        if self.mask_check and torch.compiler.is_compiling():
            return output
        trained = any(parameter.requires_grad for parameter in layer.parameters())
        given = (output, args[0], mask, trained, self.mask_check)
        if isinstance(output, fx.Proxy):
            return output.tracer.create_proxy("call_function", with_zeros, given, {})
        return with_zeros(*given)


def with_zeros(output: Tensor, src: Tensor, mask: Tensor, trained: bool, mask_check: bool) -> Tensor:  # noqa: FBT001
    """output, src: (N, T, D). mask: (N, T), not zero where there is padding."""
    followed = torch.is_grad_enabled() and (trained or src.requires_grad)
    if followed or output.ndim != 3 or not mask.is_floating_point() or output.device.type not in _DEVICES:
        return output
    padded = mask != 0
    if mask_check:
        padded = padded & _at_the_end(padded)
    return output.masked_fill(padded.unsqueeze(-1), 0.0)


def _at_the_end(padded: Tensor) -> Tensor:
    """Does padding stand at the end in all examples of a mini-batch? (N, 1), of several mini-batches each by itself."""
    size = padded.arrangement.size if isinstance(padded, Examples) else len(padded)
    elsewhere = (padded[:, :-1] & ~padded[:, 1:]).any(1).view(-1, size).any(1, keepdim=True)
    return ~elsewhere.expand(-1, size).reshape(-1, 1)
