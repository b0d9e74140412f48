"""Traceable forward passes for torch's transformer encoders, which otherwise branch on properties of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F


@contextmanager
def use_traceable_encoders(network: nn.Module) -> Iterator[None]:
    """Replace the forward passes of torch's encoders in this context by ones that do not branch on their inputs.

    A subclass with its own forward pass is not changed.
    """
    patched = []
    try:
        for module in network.modules():
            for encoder_type, forward in _FORWARD.items():
                if isinstance(module, encoder_type) and _has_forward_of(module, encoder_type):
                    patched.append(module)
                    module.forward = partial(forward, module)
        yield
    finally:
        for module in patched:
            del module.forward


def _has_forward_of(module: nn.Module, encoder_type: type[nn.Module]) -> bool:
    return getattr(module.forward, "__func__", None) is encoder_type.forward


def _encoder_forward(
    encoder: nn.TransformerEncoder,
    src: Any,
    mask: Any = None,
    src_key_padding_mask: Any = None,
    is_causal: bool | None = None,  # noqa: FBT001
) -> Any:
    mask, padding = _trace_additive_mask(mask, src), _trace_additive_mask(src_key_padding_mask, src)
    for layer in encoder.layers:
        src = layer(src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
    return src if encoder.norm is None else encoder.norm(src)


def _encoder_layer_forward(
    layer: nn.TransformerEncoderLayer,
    src: Any,
    src_mask: Any = None,
    src_key_padding_mask: Any = None,
    is_causal: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """Forward pass of `nn.TransformerEncoderLayer`, module by module."""
    mask, padding = _trace_additive_mask(src_mask, src), _trace_additive_mask(src_key_padding_mask, src)

    def self_attention(x: Any) -> Any:
        return layer._sa_block(x, mask, padding, is_causal=is_causal)

    if layer.norm_first:
        src = src + self_attention(layer.norm1(src))
        return src + layer._ff_block(layer.norm2(src))
    src = layer.norm1(src + self_attention(src))
    return layer.norm2(src + layer._ff_block(src))


_FORWARD: dict[type[nn.Module], Callable[..., Any]] = {
    nn.TransformerEncoder: _encoder_forward,
    nn.TransformerEncoderLayer: _encoder_layer_forward,
}


def _trace_additive_mask(mask: Any, like: Any) -> Any:
    """Return a mask in additive form; one operation of the graph."""
    if mask is None:
        return None
    dtype = like.dtype
    if not isinstance(dtype, fx.Proxy):
        return convert_to_additive_mask(mask, dtype)
    return dtype.tracer.create_proxy("call_function", convert_to_additive_mask, (mask, dtype), {})


def convert_to_additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a boolean mask as minus infinity where it is true, else zero; other masks unchanged."""
    additive = F._canonical_mask(mask, "mask", None, "", dtype, check_other=False)
    assert additive is not None
    return additive
