"""tanh of the sums of all rows, and their pooling, from the terms of a factored sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bln_search.norms.row_batching.compiled.compilation import compile_kernel
from bln_search.norms.row_batching.compiled.simd import LANES, even_lanes, load, odd_lanes, store
from bln_search.norms.row_batching.compiled.vector_math import tanh


@njit(nogil=True)
def _add(a: Any, a_start: int, b: Any, b_start: int, out: Any, out_start: int, length: int) -> None:
    """Write the sum of `length` ≥ LANES numbers of two arrays; the last vector overlaps the one before."""
    for i in range(0, length, LANES):
        position = min(i, length - LANES)
        store(out, out_start + position, load(a, a_start + position) + load(b, b_start + position))


@njit(nogil=True)
def _tanh_of_sum(a: Any, a_start: int, b: Any, b_start: int, out: Any, out_start: int, length: int) -> None:
    """Write tanh of the sum of `length` ≥ LANES numbers of two arrays."""
    for i in range(0, length, LANES):
        position = min(i, length - LANES)
        store(out, out_start + position, tanh(load(a, a_start + position) + load(b, b_start + position)))


@njit(nogil=True)
def _average_pool(plane: Any, height: int, width: int, sums: Any, out: Any, out_start: int) -> None:
    """Write the means of 2×2 squares, summed over rows first; the last row or column of an odd number is not used.

    Args:
        plane: (height·width + LANES,).
        height: of the plane.
        width: of the plane.
        sums: scratch memory, (height/2·width + 2·LANES,).
        out: means.
        out_start: index of the first.
    """
    used = width // 2 * 2
    for y in range(height // 2):
        for x in range(0, used, LANES):  # what is written beyond a row is overwritten by the next
            upper = 2 * y * width + x
            store(sums, y * used + x, load(plane, upper) + load(plane, upper + width))
    length = height // 2 * (width // 2)
    whole = length // LANES * LANES
    for i in range(0, whole, LANES):
        first, second = load(sums, 2 * i), load(sums, 2 * i + LANES)
        store(out, out_start + i, (even_lanes(first, second) + odd_lanes(first, second)) * 0.25)
    for i in range(whole, length):
        out[out_start + i] = (sums[2 * i] + sums[2 * i + 1]) * np.float32(0.25)


@compile_kernel
def tanh_of_sums(
    scaled_batch: Any,
    offset_batch: Any,
    scaled_feature: Any,
    offset_feature: Any,
    batch_variants: Any,
    feature_variants: Any,
    rows: Any,
    shape: tuple[int, int, int, int, int, int],
    start: int,
    stop: int,
    pools: bool,
    out: Any,
) -> None:
    """Write tanh(batch term + feature term) of all rows for examples `start` to before `stop`.

    Args:
        scaled_batch: (scales, G·N, C, H·W), flat as all arrays.
        offset_batch: (offsets, G or 1, C, H·W).
        scaled_feature: (scales, G·N, C, H·W).
        offset_feature: (offsets, G·N, C, H·W).
        batch_variants: for each batch variant, the indices of its scaled term and its offset.
        feature_variants: for each feature variant, the indices of its scaled term and its offset; -1 for no offset.
        rows: for each row, the indices of its batch variant and its feature variant.
        shape: G·N, N, number of mini-batches in `offset_batch`, C, H, W.
        start: first example.
        stop: example after the last.
        pools: whether to write means of 2×2 squares.
        out: (rows, G·N, C, H·W), or (rows, G·N, C, H/2·W/2).
    """
    examples, size, offset_groups, channels, height, width = shape
    area = height * width
    out_area = (height // 2) * (width // 2) if pools else area
    padded = area + 2 * LANES
    batch = np.empty(len(batch_variants) * padded, np.float32)
    feature = np.empty(len(feature_variants) * padded, np.float32)
    plane, sums = np.empty(padded + width, np.float32), np.empty(padded + width, np.float32)
    for example in range(start, stop):
        group = example // size if offset_groups > 1 else 0
        for channel in range(channels):
            position = (example * channels + channel) * area
            for i in range(len(batch_variants)):
                scaled = batch_variants[i, 0] * examples * channels * area + position
                offset = ((batch_variants[i, 1] * offset_groups + group) * channels + channel) * area
                _add(scaled_batch, scaled, offset_batch, offset, batch, i * padded, area)
            for i in range(len(feature_variants)):
                scaled = feature_variants[i, 0] * examples * channels * area + position
                if feature_variants[i, 1] < 0:
                    feature[i * padded : i * padded + area] = scaled_feature[scaled : scaled + area]
                    continue
                offset = feature_variants[i, 1] * examples * channels * area + position
                _add(scaled_feature, scaled, offset_feature, offset, feature, i * padded, area)
            for row in range(len(rows)):
                target = ((row * examples + example) * channels + channel) * out_area
                if pools:
                    _tanh_of_sum(batch, rows[row, 0] * padded, feature, rows[row, 1] * padded, plane, 0, area)
                    _average_pool(plane, height, width, sums, out, target)
                else:
                    _tanh_of_sum(batch, rows[row, 0] * padded, feature, rows[row, 1] * padded, out, target, area)
