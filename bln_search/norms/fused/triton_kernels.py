"""The kernels of `triton_launch`, one for each function of `torch_kernels`, in single precision."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def batch_statistics_kernel(
    x_ptr, history_ptr, batch_ptr, outer, channels, inner, epsilon, share, own_variance_factor, r_max, d_max,
    KIND: tl.constexpr, BETWEEN: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write the rows of `BatchStatisticIndex` for CHANNELS channels."""
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    in_channels = channel < channels
    count = outer * inner
    total = tl.zeros([CHANNELS, ROWS], tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        offsets = (row // inner * channels * inner + row % inner)[None, :] + (channel * inner)[:, None]
        mask = in_channels[:, None] & (row < count)[None, :]
        total += tl.load(x_ptr + offsets, mask=mask, other=0.0)
    mean = tl.sum(total, 1) / count
    total = tl.zeros([CHANNELS, ROWS], tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        offsets = (row // inner * channels * inner + row % inner)[None, :] + (channel * inner)[:, None]
        mask = in_channels[:, None] & (row < count)[None, :]
        centred = tl.where(mask, tl.load(x_ptr + offsets, mask=mask, other=0.0) - mean[:, None], 0.0)
        total += centred * centred
    variance = tl.sum(total, 1) / count
    centre, under_root = mean, own_variance_factor * variance
    slope = tl.zeros([CHANNELS], tl.float32)
    if KIND == 1:
        shift = mean - tl.load(history_ptr + channel, mask=in_channels, other=0.0)
        centre = mean - share * shift
        under_root += share * tl.load(history_ptr + channels + channel, mask=in_channels, other=0.0)
        if BETWEEN:
            under_root += share * (1 - share) * shift * shift
            slope = 2 * share * (1 - share) * shift
    reciprocal = 1 / tl.sqrt(under_root + epsilon)
    factor = tl.zeros([CHANNELS], tl.float32) + 1
    offset = tl.zeros([CHANNELS], tl.float32)
    if KIND == 2:
        average_mean = tl.load(history_ptr + channel, mask=in_channels, other=0.0)
        average_deviation = tl.load(history_ptr + channels + channel, mask=in_channels, other=1.0)
        factor = _clamp(1 / (reciprocal * average_deviation), 1 / r_max, r_max)
        offset = _clamp((mean - average_mean) / average_deviation, -d_max, d_max)
    tl.store(batch_ptr + channel, mean, mask=in_channels)
    tl.store(batch_ptr + channels + channel, variance, mask=in_channels)
    tl.store(batch_ptr + 2 * channels + channel, centre, mask=in_channels)
    tl.store(batch_ptr + 3 * channels + channel, reciprocal, mask=in_channels)
    tl.store(batch_ptr + 4 * channels + channel, factor, mask=in_channels)
    tl.store(batch_ptr + 5 * channels + channel, offset, mask=in_channels)
    tl.store(batch_ptr + 6 * channels + channel, slope, mask=in_channels)


@triton.jit
def _clamp(value, low, high):
    """Return a value within bounds; NaN stays NaN, as in torch."""
    return tl.where(value < low, low, tl.where(value > high, high, value))


@triton.jit
def normalize_kernel(
    x_ptr, weight_ptr, bias_ptr, batch_ptr, output_ptr, feature_ptr,
    channels, groups, group_size, group_stride, element_stride, channel_divisor, group_divisor,
    batch_weight, feature_weight, epsilon,
    HAS_BATCH: tl.constexpr, HAS_FEATURE: tl.constexpr, GROUPS: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """Normalize GROUPS groups of a feature statistic, and write mean and variance of each."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    in_groups = group < groups
    base = group // group_divisor * group_stride + group % group_divisor
    mean = tl.zeros([GROUPS], tl.float32)
    reciprocal = tl.zeros([GROUPS], tl.float32)
    if HAS_FEATURE:
        total = tl.zeros([GROUPS, ELEMENTS], tl.float32)
        for start in range(0, group_size, ELEMENTS):
            element = start + tl.arange(0, ELEMENTS)
            mask = in_groups[:, None] & (element < group_size)[None, :]
            total += tl.load(x_ptr + base[:, None] + (element * element_stride)[None, :], mask=mask, other=0.0)
        mean = tl.sum(total, 1) / group_size
        total = tl.zeros([GROUPS, ELEMENTS], tl.float32)
        for start in range(0, group_size, ELEMENTS):
            element = start + tl.arange(0, ELEMENTS)
            mask = in_groups[:, None] & (element < group_size)[None, :]
            x = tl.load(x_ptr + base[:, None] + (element * element_stride)[None, :], mask=mask, other=0.0)
            centred = tl.where(mask, x - mean[:, None], 0.0)
            total += centred * centred
        variance = tl.sum(total, 1) / group_size
        reciprocal = 1 / tl.sqrt(variance + epsilon)
        tl.store(feature_ptr + group, mean, mask=in_groups)
        tl.store(feature_ptr + groups + group, variance, mask=in_groups)
    for start in range(0, group_size, ELEMENTS):
        element = start + tl.arange(0, ELEMENTS)
        in_elements = element < group_size
        mask = in_groups[:, None] & in_elements[None, :]
        offsets = base[:, None] + (element * element_stride)[None, :]
        channel = element // channel_divisor
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        result = tl.zeros([GROUPS, ELEMENTS], tl.float32)
        if HAS_BATCH:
            centre = tl.load(batch_ptr + 2 * channels + channel, mask=in_elements, other=0.0)
            scale = tl.load(batch_ptr + 3 * channels + channel, mask=in_elements, other=0.0)
            factor = tl.load(batch_ptr + 4 * channels + channel, mask=in_elements, other=0.0)
            offset = tl.load(batch_ptr + 5 * channels + channel, mask=in_elements, other=0.0)
            normalized = (x - centre[None, :]) * scale[None, :]
            result += batch_weight * (factor[None, :] * normalized + offset[None, :])
        if HAS_FEATURE:
            result += feature_weight * (x - mean[:, None]) * reciprocal[:, None]
        weight = tl.load(weight_ptr + channel, mask=in_elements, other=0.0)
        bias = tl.load(bias_ptr + channel, mask=in_elements, other=0.0)
        tl.store(output_ptr + offsets, result * weight[None, :] + bias[None, :], mask=mask)


@triton.jit
def gradient_sums_kernel(
    grad_ptr, x_ptr, weight_ptr, batch_ptr, feature_ptr, sums_ptr, outer, channels, inner, groups, inner_of_group,
    batch_weight, feature_weight, epsilon, own_share, own_variance_factor,
    HAS_BATCH: tl.constexpr, HAS_FEATURE: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write the four sums of CHANNELS channels."""
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    in_channels = channel < channels
    count = outer * inner
    sum_of_grads = tl.zeros([CHANNELS, ROWS], tl.float32)
    with_batch = tl.zeros([CHANNELS, ROWS], tl.float32)
    with_feature = tl.zeros([CHANNELS, ROWS], tl.float32)
    centre = tl.zeros([CHANNELS], tl.float32)
    reciprocal = tl.zeros([CHANNELS], tl.float32)
    if HAS_BATCH:
        centre = tl.load(batch_ptr + 2 * channels + channel, mask=in_channels, other=0.0)
        reciprocal = tl.load(batch_ptr + 3 * channels + channel, mask=in_channels, other=0.0)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        in_rows = row < count
        offsets = (row // inner * channels * inner + row % inner)[None, :] + (channel * inner)[:, None]
        mask = in_channels[:, None] & in_rows[None, :]
        grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        sum_of_grads += grad
        if HAS_BATCH:
            with_batch += grad * (x - centre[:, None]) * reciprocal[:, None]
        if HAS_FEATURE:
            mean = tl.load(feature_ptr + row // inner_of_group, mask=in_rows, other=0.0)
            variance = tl.load(feature_ptr + groups + row // inner_of_group, mask=in_rows, other=0.0)
            with_feature += grad * (x - mean[None, :]) / tl.sqrt(variance + epsilon)[None, :]
    by_bias = tl.sum(sum_of_grads, 1)
    by_weight = feature_weight * tl.sum(with_feature, 1)
    by_mean = tl.zeros([CHANNELS], tl.float32)
    by_variance = tl.zeros([CHANNELS], tl.float32)
    if HAS_BATCH:
        normalized = tl.sum(with_batch, 1)
        factor = tl.load(batch_ptr + 4 * channels + channel, mask=in_channels, other=0.0)
        offset = tl.load(batch_ptr + 5 * channels + channel, mask=in_channels, other=0.0)
        slope = tl.load(batch_ptr + 6 * channels + channel, mask=in_channels, other=0.0)
        weight = tl.load(weight_ptr + channel, mask=in_channels, other=0.0)
        by_weight += batch_weight * (factor * normalized + offset * by_bias)
        scale = batch_weight * weight * factor * reciprocal
        by_total = -0.5 * scale * reciprocal * normalized
        by_mean = (slope * by_total - own_share * scale * by_bias) / count
        by_variance = 2 * own_variance_factor * by_total / count
    tl.store(sums_ptr + channel, by_weight, mask=in_channels)
    tl.store(sums_ptr + channels + channel, by_bias, mask=in_channels)
    tl.store(sums_ptr + 2 * channels + channel, by_mean, mask=in_channels)
    tl.store(sums_ptr + 3 * channels + channel, by_variance, mask=in_channels)


@triton.jit
def input_gradient_kernel(
    grad_ptr, x_ptr, weight_ptr, batch_ptr, feature_ptr, sums_ptr, result_ptr,
    channels, groups, group_size, group_stride, element_stride, channel_divisor, group_divisor,
    batch_weight, feature_weight, epsilon,
    HAS_BATCH: tl.constexpr, HAS_FEATURE: tl.constexpr, GROUPS: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of GROUPS groups of a feature statistic."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    in_groups = group < groups
    base = group // group_divisor * group_stride + group % group_divisor
    mean = tl.zeros([GROUPS], tl.float32)
    reciprocal = tl.zeros([GROUPS], tl.float32)
    mean_of_grads = tl.zeros([GROUPS], tl.float32)
    mean_of_products = tl.zeros([GROUPS], tl.float32)
    if HAS_FEATURE:
        mean = tl.load(feature_ptr + group, mask=in_groups, other=0.0)
        reciprocal = 1 / tl.sqrt(tl.load(feature_ptr + groups + group, mask=in_groups, other=1.0) + epsilon)
        grads = tl.zeros([GROUPS, ELEMENTS], tl.float32)
        products = tl.zeros([GROUPS, ELEMENTS], tl.float32)
        for start in range(0, group_size, ELEMENTS):
            element = start + tl.arange(0, ELEMENTS)
            in_elements = element < group_size
            mask = in_groups[:, None] & in_elements[None, :]
            offsets = base[:, None] + (element * element_stride)[None, :]
            weight = tl.load(weight_ptr + element // channel_divisor, mask=in_elements, other=0.0)
            scaled = tl.load(grad_ptr + offsets, mask=mask, other=0.0) * weight[None, :]
            x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
            grads += scaled
            products += scaled * (x - mean[:, None]) * reciprocal[:, None]
        mean_of_grads = tl.sum(grads, 1) / group_size
        mean_of_products = tl.sum(products, 1) / group_size
    for start in range(0, group_size, ELEMENTS):
        element = start + tl.arange(0, ELEMENTS)
        in_elements = element < group_size
        mask = in_groups[:, None] & in_elements[None, :]
        offsets = base[:, None] + (element * element_stride)[None, :]
        channel = element // channel_divisor
        weight = tl.load(weight_ptr + channel, mask=in_elements, other=0.0)
        scaled = tl.load(grad_ptr + offsets, mask=mask, other=0.0) * weight[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        result = tl.zeros([GROUPS, ELEMENTS], tl.float32)
        if HAS_BATCH:
            batch_mean = tl.load(batch_ptr + channel, mask=in_elements, other=0.0)
            scale = tl.load(batch_ptr + 3 * channels + channel, mask=in_elements, other=0.0)
            factor = tl.load(batch_ptr + 4 * channels + channel, mask=in_elements, other=0.0)
            by_mean = tl.load(sums_ptr + 2 * channels + channel, mask=in_elements, other=0.0)
            by_variance = tl.load(sums_ptr + 3 * channels + channel, mask=in_elements, other=0.0)
            result += scaled * (batch_weight * factor * scale)[None, :] + by_mean[None, :]
            result += by_variance[None, :] * (x - batch_mean[None, :])
        if HAS_FEATURE:
            normalized = (x - mean[:, None]) * reciprocal[:, None]
            deviation_part = scaled - mean_of_grads[:, None] - normalized * mean_of_products[:, None]
            result += feature_weight * reciprocal[:, None] * deviation_part
        tl.store(result_ptr + offsets, result, mask=mask)
