"""Parts of the kernel of the last two layers: a tile, its products with weights, and the logits of its variants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bln_search.norms.row_batching.compiled.simd import (
    LANES,
    broadcast,
    load,
    select_if_less,
    splat,
    sqrt,
    store,
    sum_of_lanes,
)
from bln_search.norms.row_batching.compiled.vector_math import tanh

CLASS_BLOCK = 5
"""Outputs of a linear layer that are computed together."""

TILE_LANES = 2 * LANES
"""Examples that are computed together."""


@njit(nogil=True)
def fill_transposed(source: Any, start: int, size: int, units: int, lanes: int, out: Any, out_start: int) -> None:
    """Write a mini-batch (N, D) as (D, lanes), zeros after the last example."""
    for unit in range(units):
        target = out_start + unit * lanes
        for example in range(size):
            out[target + example] = source[start + example * units + unit]
        for example in range(size, lanes):
            out[target + example] = np.float32(0.0)


@njit(nogil=True)
def multiply_weight_block_by_tile(
    weights: Any, start: int, stride: int, values: Any, column: int, lanes: int, units: int, out: Any, out_start: int
) -> None:
    """Write the products of CLASS_BLOCK columns of weights with TILE_LANES columns of values."""
    a0 = a1 = a2 = a3 = a4 = b0 = b1 = b2 = b3 = b4 = splat(0.0)
    for unit in range(units):
        position = column + unit * lanes
        a, b = load(values, position), load(values, position + LANES)
        row = start + unit * stride
        w = broadcast(weights, row)
        a0, b0 = a0 + a * w, b0 + b * w
        w = broadcast(weights, row + 1)
        a1, b1 = a1 + a * w, b1 + b * w
        w = broadcast(weights, row + 2)
        a2, b2 = a2 + a * w, b2 + b * w
        w = broadcast(weights, row + 3)
        a3, b3 = a3 + a * w, b3 + b * w
        w = broadcast(weights, row + 4)
        a4, b4 = a4 + a * w, b4 + b * w
    store(out, out_start, a0)
    store(out, out_start + LANES, b0)
    store(out, out_start + lanes, a1)
    store(out, out_start + lanes + LANES, b1)
    store(out, out_start + 2 * lanes, a2)
    store(out, out_start + 2 * lanes + LANES, b2)
    store(out, out_start + 3 * lanes, a3)
    store(out, out_start + 3 * lanes + LANES, b3)
    store(out, out_start + 4 * lanes, a4)
    store(out, out_start + 4 * lanes + LANES, b4)


@njit(nogil=True, error_model="numpy")
def compute_centred_tile(
    batch: Any,
    batch_start: int,
    feature: Any,
    feature_start: int,
    is_tanh: bool,
    valid: Any,
    size: int,
    units: int,
    lanes: int,
    tile: Any,
    mean: Any,
    variance: Any,
) -> None:
    """Write x − μ, μ and the variance of each unit of x = f(batch term + feature term), f tanh or ReLU.

    Tiles are (D, lanes).
    """
    share = np.float32(1.0) / np.float32(size)
    for unit in range(units):
        row = unit * lanes
        total = splat(0.0)
        for lane in range(0, lanes, LANES):
            x = load(batch, batch_start + row + lane) + load(feature, feature_start + row + lane)
            x = tanh(x) if is_tanh else select_if_less(x, 0.0, 0.0, x)
            store(tile, row + lane, x)
            total = total + x
        mu = sum_of_lanes(total) * share
        squares = splat(0.0)
        for lane in range(0, lanes, LANES):
            centred = (load(tile, row + lane) - mu) * load(valid, lane)
            store(tile, row + lane, centred)
            squares = squares + centred * centred
        mean[unit] = mu
        variance[unit] = sum_of_lanes(squares) * share


@njit(nogil=True, error_model="numpy")
def fill_scaled_weights(
    weights: Any,
    mean: Any,
    variance: Any,
    population_mean: Any,
    scalars: tuple[float, float, float, float, float],
    around_selected_mean: bool,
    units: int,
    columns: int,
    sums: Any,
) -> None:
    """Write W·diag(r) with r of the mini-batch, and the sums over units that all examples share.

    Args:
        weights: (D, four blocks of columns): W and W·diag(r) of the population, then W·diag(r) around the mean of the
            mini-batch and of the population, which are written.
        mean: μ.
        variance: of the mini-batch.
        population_mean: E.
        scalars: w_B, w_F, ε, mean and deviation of features of the population.
        around_selected_mean: whether a deviation is computed around the selected mean.
        units: D.
        columns: of a block.
        sums: Wμ, W·diag(r)(μ − E) with r of the mini-batch and of the population; three blocks of columns.
    """
    weight, epsilon = np.float32(scalars[0]), np.float32(scalars[2])
    sums[: 3 * columns] = np.float32(0.0)
    for unit in range(units):
        mu = mean[unit]
        shift = mu - population_mean[unit]
        own = weight / np.sqrt(variance[unit] + epsilon)
        around = own
        if around_selected_mean:
            around = weight / np.sqrt(variance[unit] + shift * shift + epsilon)
        row = unit * 4 * columns
        for column in range(0, columns, LANES):
            w, population = load(weights, row + column), load(weights, row + columns + column)
            store(weights, row + 2 * columns + column, w * own)
            store(weights, row + 3 * columns + column, w * around)
            store(sums, column, load(sums, column) + w * mu)
            store(sums, columns + column, load(sums, columns + column) + w * (shift * around))
            store(sums, 2 * columns + column, load(sums, 2 * columns + column) + population * shift)


@njit(nogil=True, error_model="numpy")
def fill_relative_logits(
    tile: Any,
    mean: Any,
    products: Any,
    sums: Any,
    weight_sums: Any,
    constant: Any,
    one_hot: Any,
    scalars: tuple[float, float, float, float, float],
    around_selected_mean: bool,
    shape: tuple[int, int, int, int],
    lane: int,
    batch: Any,
    feature: Any,
) -> None:
    """Write the variants of both pairs, relative to the target's, for the examples of a vector.

    Variants are in the order of (mean, deviation): both of the mini-batch, deviation of the population, mean of the
    population, both of the population. `batch` and `feature` are (4, classes, LANES).
    """
    units, lanes, classes, columns = shape
    epsilon, population_mean = np.float32(scalars[2]), np.float32(scalars[3])
    weight, population_scale = np.float32(scalars[1]), np.float32(scalars[1] / scalars[4])
    share = np.float32(1.0) / np.float32(units)
    total = splat(0.0)
    for unit in range(units):
        total = total + (load(tile, unit * lanes + lane) + broadcast(mean, unit))
    m = total * share
    squares = splat(0.0)
    for unit in range(units):
        centred = load(tile, unit * lanes + lane) + broadcast(mean, unit) - m
        squares = squares + centred * centred
    variance = squares * share
    shift = m - population_mean
    own_scale = weight / sqrt(variance + epsilon)
    around_scale = own_scale
    if around_selected_mean:
        around_scale = weight / sqrt(variance + shift * shift + epsilon)
    block = columns * lanes
    targets_batch_own = targets_batch_population = targets_batch_around = targets_batch_shifted = splat(0.0)
    targets_centred = targets_shifted = splat(0.0)
    for k in range(classes):
        position = k * lanes + lane
        z = broadcast(constant, k)
        population = load(products, block + position) + z
        own = load(products, 2 * block + position) + z
        around = load(products, 3 * block + position) + (z + broadcast(sums, columns + k))
        shifted_population = population + broadcast(sums, 2 * columns + k)
        w = broadcast(weight_sums, k)
        centred = load(products, position) + broadcast(sums, k) - m * w
        shifted = centred + shift * w
        store(batch, k * LANES, own)
        store(batch, (classes + k) * LANES, population)
        store(batch, (2 * classes + k) * LANES, around)
        store(batch, (3 * classes + k) * LANES, shifted_population)
        store(feature, k * LANES, centred)
        store(feature, (2 * classes + k) * LANES, shifted)
        is_target = load(one_hot, position)
        targets_batch_own = targets_batch_own + is_target * own
        targets_batch_population = targets_batch_population + is_target * population
        targets_batch_around = targets_batch_around + is_target * around
        targets_batch_shifted = targets_batch_shifted + is_target * shifted_population
        targets_centred = targets_centred + is_target * centred
        targets_shifted = targets_shifted + is_target * shifted
    for k in range(classes):
        position = k * LANES
        step = classes * LANES
        store(batch, position, load(batch, position) - targets_batch_own)
        store(batch, position + step, load(batch, position + step) - targets_batch_population)
        store(batch, position + 2 * step, load(batch, position + 2 * step) - targets_batch_around)
        store(batch, position + 3 * step, load(batch, position + 3 * step) - targets_batch_shifted)
        centred = load(feature, position) - targets_centred
        shifted = load(feature, position + 2 * step) - targets_shifted
        store(feature, position, centred * own_scale)
        store(feature, position + step, centred * population_scale)
        store(feature, position + 2 * step, shifted * around_scale)
        store(feature, position + 3 * step, shifted * population_scale)
