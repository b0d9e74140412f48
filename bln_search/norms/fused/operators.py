"""The fused kernels as operators of torch: Triton for single precision on a GPU, otherwise torch.

Each operator is one entry in torch's dispatcher, as it is one launch on a GPU. Layout and terms are given as numbers,
because an operator takes no other objects.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor

from bln_search.norms.fused import torch_kernels
from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.terms import FusedTerms
from bln_search.norms.fused.torch_kernels import BatchStatisticIndex


def is_triton_installed() -> bool:
    """Return whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


_MAX_VALUES = 2**31
"""Bound of the addresses of the Triton kernels."""


def _run_kernel(
    name: str,
    x: Tensor,
    arguments: tuple[Any, ...],
    layout: list[int],
    terms: list[float],
    history: Tensor | None = None,
) -> Any:
    """Run the kernel `name` of the module for the device and the dtype of `x`; `arguments` precede layout and terms."""
    described = FusedLayout.from_numbers(layout), FusedTerms.from_numbers(terms, history)
    if x.device.type != "cuda" or x.dtype is not torch.float32 or x.numel() >= _MAX_VALUES:
        return getattr(torch_kernels, name)(*arguments, *described)
    from bln_search.norms.fused import triton_launch  # noqa: PLC0415 - only torch for GPUs comes with Triton

    with torch.cuda.device(x.device):
        return getattr(triton_launch, name)(*arguments, *described)


@torch.library.custom_op("bln_search::batch_statistics", mutates_args=())
def batch_statistics(x: Tensor, history: Tensor | None, layout: list[int], terms: list[float]) -> Tensor:
    """See `torch_kernels.compute_batch_statistics`."""
    result: Tensor = _run_kernel("compute_batch_statistics", x, (x,), layout, terms, history)
    return result


@torch.library.custom_op("bln_search::normalize", mutates_args=())
def normalize(
    x: Tensor, weight: Tensor, bias: Tensor, batch: Tensor | None, layout: list[int], terms: list[float]
) -> tuple[Tensor, Tensor]:
    """See `torch_kernels.normalize`."""
    output, feature = _run_kernel("normalize", x, (x, weight, bias, batch), layout, terms)
    return output, feature


@torch.library.custom_op("bln_search::normalize_gradient_sums", mutates_args=())
def gradient_sums(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch: Tensor | None,
    feature: Tensor,
    layout: list[int],
    terms: list[float],
) -> Tensor:
    """See `torch_kernels.compute_gradient_sums`."""
    result: Tensor = _run_kernel("compute_gradient_sums", x, (grad, x, weight, batch, feature), layout, terms)
    return result


@torch.library.custom_op("bln_search::normalize_input_gradient", mutates_args=())
def input_gradient(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch: Tensor | None,
    feature: Tensor,
    sums: Tensor,
    layout: list[int],
    terms: list[float],
) -> Tensor:
    """See `torch_kernels.compute_input_gradient`."""
    result: Tensor = _run_kernel("compute_input_gradient", x, (grad, x, weight, batch, feature, sums), layout, terms)
    return result


def _describe_output(x: Tensor, layout: list[int], terms: list[float]) -> tuple[Tensor, Tensor]:
    """Return tensors of the shapes of what `normalize` returns."""
    has_feature = FusedTerms.from_numbers(terms, None).feature_weight is not None
    return torch.empty_like(x), x.new_empty(2, FusedLayout.from_numbers(layout).num_groups if has_feature else 0)


batch_statistics.register_fake(lambda x, _history, layout, _terms: x.new_empty(len(BatchStatisticIndex), layout[1]))
normalize.register_fake(lambda x, *others: _describe_output(x, *others[-2:]))
gradient_sums.register_fake(lambda _grad, x, *others: x.new_empty(4, others[-2][1]))
input_gradient.register_fake(lambda _grad, x, *_: torch.empty_like(x))
