"""The fused kernels in Triton, for single precision on a GPU: one launch for each function of `torch_kernels`."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.terms import FusedTerms
from bln_search.norms.fused.torch_kernels import BatchStatisticIndex
from bln_search.norms.fused.triton_kernels import (
    batch_statistics_kernel,
    gradient_sums_kernel,
    input_gradient_kernel,
    normalize_kernel,
)

_TILE = 2048
"""Number of values that a program holds at a time."""

_MAX_COLUMNS = 1024


def compute_batch_statistics(x: Tensor, layout: FusedLayout, terms: FusedTerms) -> Tensor:
    """As `torch_kernels.compute_batch_statistics`."""
    batch = torch.empty(len(BatchStatisticIndex), layout.channels, dtype=torch.float32, device=x.device)
    history = terms.history
    values = x if history.values is None else history.values.contiguous()
    channels, rows = _channel_tile(layout)
    batch_statistics_kernel[(triton.cdiv(layout.channels, channels),)](
        x, values, batch, *layout.shape, terms.epsilon, history.share, terms.own_variance_factor, history.r_max,
        history.d_max, KIND=int(history.kind), BETWEEN=history.between_variance, CHANNELS=channels, ROWS=rows,
    )  # fmt: skip
    return batch


def normalize(
    x: Tensor, weight: Tensor, bias: Tensor, batch: Tensor | None, layout: FusedLayout, terms: FusedTerms
) -> tuple[Tensor, Tensor]:
    """As `torch_kernels.normalize`."""
    has_feature = terms.feature_weight is not None
    output = torch.empty_like(x)
    feature = torch.empty(2, layout.num_groups if has_feature else 0, dtype=torch.float32, device=x.device)
    groups, elements = _group_tile(layout)
    normalize_kernel[(triton.cdiv(layout.num_groups, groups),)](
        x, weight, bias, x if batch is None else batch, output, feature, *_group_arguments(layout),
        terms.batch_weight or 0.0, terms.feature_weight or 0.0, terms.epsilon, HAS_BATCH=batch is not None,
        HAS_FEATURE=has_feature, GROUPS=groups, ELEMENTS=elements,
    )  # fmt: skip
    return output, feature


def compute_gradient_sums(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch: Tensor | None,
    feature: Tensor,
    layout: FusedLayout,
    terms: FusedTerms,
) -> Tensor:
    """As `torch_kernels.compute_gradient_sums`."""
    sums = torch.empty(4, layout.channels, dtype=torch.float32, device=x.device)
    channels, rows = _channel_tile(layout)
    gradient_sums_kernel[(triton.cdiv(layout.channels, channels),)](
        grad, x, weight, x if batch is None else batch, feature, sums, *layout.shape, layout.num_groups,
        layout.inner if layout.whole_layer else 1, terms.batch_weight or 0.0, terms.feature_weight or 0.0,
        terms.epsilon, 1 - terms.history.share, terms.own_variance_factor, HAS_BATCH=batch is not None,
        HAS_FEATURE=terms.feature_weight is not None, CHANNELS=channels, ROWS=rows,
    )  # fmt: skip
    return sums


def compute_input_gradient(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch: Tensor | None,
    feature: Tensor,
    sums: Tensor,
    layout: FusedLayout,
    terms: FusedTerms,
) -> Tensor:
    """As `torch_kernels.compute_input_gradient`."""
    result = torch.empty_like(x)
    groups, elements = _group_tile(layout)
    input_gradient_kernel[(triton.cdiv(layout.num_groups, groups),)](
        grad, x, weight, x if batch is None else batch, feature, sums, result, *_group_arguments(layout),
        terms.batch_weight or 0.0, terms.feature_weight or 0.0, terms.epsilon, HAS_BATCH=batch is not None,
        HAS_FEATURE=terms.feature_weight is not None, GROUPS=groups, ELEMENTS=elements,
    )  # fmt: skip
    return result


def _channel_tile(layout: FusedLayout) -> tuple[int, int]:
    """Return channels and values of a channel that a program reads at a time: neighbours in memory side by side."""
    channels = 1 if layout.inner >= 32 else min(32, triton.next_power_of_2(layout.channels))
    return channels, min(_TILE // channels, triton.next_power_of_2(layout.num_values_of_channel))


def _group_tile(layout: FusedLayout) -> tuple[int, int]:
    """Return groups and elements of a group that a program reads at a time."""
    elements = min(_MAX_COLUMNS, triton.next_power_of_2(layout.group_size))
    return min(_TILE // elements, triton.next_power_of_2(layout.num_groups)), elements


def _group_arguments(layout: FusedLayout) -> tuple[int, ...]:
    """Return what addresses the elements of the groups of a feature statistic.

    Group g begins at g // divisor · stride + g % divisor; its element e is e · element stride further, in channel
    e // channel divisor.
    """
    whole = layout.whole_layer
    return (
        layout.channels,
        layout.num_groups,
        layout.group_size,
        layout.channels * layout.inner,
        1 if whole else layout.inner,
        layout.inner if whole else 1,
        1 if whole else layout.inner,
    )
