"""A normalization layer with both pairs of statistics over images, each row from its own input.

A tile, the mini-batch of one row, is read once and stays in the cache for the passes over it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bln_search.norms.row_batching.compiled.compilation import compile_kernel
from bln_search.norms.row_batching.compiled.simd import LANES, load, splat, sqrt, store


@njit(nogil=True)
def _read_tile(x: Any, start: int, planes: int, area: int, padded: int, tile: Any) -> None:
    """Copy planes of `area` numbers, each filled with zeros to `padded`."""
    whole = area // LANES * LANES
    for plane in range(planes):
        source, target = start + plane * area, plane * padded
        for i in range(0, whole, LANES):
            store(tile, target + i, load(x, source + i))
        for i in range(whole, area):
            tile[target + i] = x[source + i]
        for i in range(area, padded):
            tile[target + i] = np.float32(0.0)


@njit(nogil=True)
def _average(sums: Any, count: int, channels: int, area: int, padded: int, pools_positions: bool) -> None:
    """Divide sums over examples (C, padded) by their number; with `pools_positions` average over positions too."""
    for channel in range(channels):
        row = channel * padded
        if not pools_positions:
            for i in range(padded):
                sums[row + i] /= np.float32(count)
            continue
        total = np.float32(0.0)
        for i in range(area):
            total += sums[row + i]
        mean = total / np.float32(count * area)
        for i in range(padded):
            sums[row + i] = mean


@njit(nogil=True)
def _fill_planes(values: Any, start: int, planes: int, area: int, padded: int, out: Any) -> None:
    """Copy planes of `area` numbers to planes of `padded`, which are filled with ones."""
    for plane in range(planes):
        for i in range(padded):
            out[plane * padded + i] = values[start + plane * area + i] if i < area else np.float32(1.0)


@njit(nogil=True, error_model="numpy")
def _compute_batch_scale(
    tile: Any,
    batch: tuple[Any, Any, Any],
    row: int,
    scalars: tuple[float, float, float],
    flags: tuple[bool, bool],
    shape: tuple[int, int, int, int],
    gamma: Any,
    mean: Any,
    scale: Any,
    work: Any,
) -> None:
    """Write the mean E of the row and γ·w_B/deviation, (C, padded).

    Args:
        tile: (N, C, padded).
        batch: population means and deviations (rows, C·area), and whether mean and deviation of a row are of it.
        row: its index.
        scalars: w_B, ε, and the factor of the variance.
        flags: whether statistics average over positions, and whether a deviation is around the selected mean.
        shape: N, C, area, padded.
        gamma: (C, padded).
        mean: written.
        scale: written.
        work: scratch memory, (C, padded).
    """
    size, channels, area, padded = shape
    length = channels * padded
    population_mean, population_deviation, sources = batch
    for i in range(0, length, LANES):
        total = splat(0.0)
        for example in range(size):
            total = total + load(tile, example * length + i)
        store(mean, i, total)
    _average(mean, size, channels, area, padded, flags[0])
    if sources[row, 0] and flags[1]:
        _fill_planes(population_mean, row * channels * area, channels, area, padded, mean)
    if sources[row, 1]:
        _fill_planes(population_deviation, row * channels * area, channels, area, padded, work)
        for i in range(0, length, LANES):
            store(scale, i, load(gamma, i) * np.float32(scalars[0]) / load(work, i))
    else:
        for i in range(0, length, LANES):
            total, centre = splat(0.0), load(mean, i)
            for example in range(size):
                centred = load(tile, example * length + i) - centre
                total = total + centred * centred
            store(work, i, total)
        _average(work, size, channels, area, padded, flags[0])
        for i in range(0, length, LANES):
            deviation = sqrt(load(work, i) * np.float32(scalars[2]) + np.float32(scalars[1]))
            store(scale, i, load(gamma, i) * np.float32(scalars[0]) / deviation)
    if sources[row, 0] and not flags[1]:
        _fill_planes(population_mean, row * channels * area, channels, area, padded, mean)


@njit(nogil=True, error_model="numpy")
def _compute_feature_scale(
    tile: Any,
    start: int,
    population: tuple[Any, Any],
    sources: Any,
    row: int,
    scalars: tuple[float, float, float],
    around_selected_mean: bool,
    channels: int,
    padded: int,
    mean: Any,
    scale: Any,
) -> None:
    """Write the mean E of an example over its channels and w_F/deviation, (padded,)."""
    share = np.float32(1.0) / np.float32(channels)
    for i in range(0, padded, LANES):
        total = splat(0.0)
        for channel in range(channels):
            total = total + load(tile, start + channel * padded + i)
        own = total * share
        selected = load(population[0], i) if sources[row, 0] else own
        store(mean, i, selected)
        if sources[row, 1]:
            store(scale, i, np.float32(scalars[0]) / load(population[1], i))
            continue
        centre = selected if around_selected_mean else own
        squares = splat(0.0)
        for channel in range(channels):
            centred = load(tile, start + channel * padded + i) - centre
            squares = squares + centred * centred
        deviation = sqrt(squares * share * np.float32(scalars[2]) + np.float32(scalars[1]))
        store(scale, i, np.float32(scalars[0]) / deviation)


@compile_kernel
def normalize_separate_rows(
    x: Any,
    gamma: Any,
    beta: Any,
    batch: tuple[Any, Any, Any],
    feature: tuple[Any, Any, Any],
    batch_scalars: tuple[float, float, float],
    feature_scalars: tuple[float, float, float],
    flags: tuple[bool, bool],
    shape: tuple[int, int, int, int],
    start: int,
    stop: int,
    out: Any,
) -> None:
    """Write the outputs of the tiles `start` to before `stop`.

    Args:
        x: (rows·G tiles, N, C, area), flat as all arrays of numbers.
        gamma: (C, area).
        beta: (C, area).
        batch: population means and deviations (rows, C, area), and whether mean and deviation of each row are from the
            population, (rows, 2).
        feature: the same with (rows, area).
        batch_scalars: w_B, ε, and the factor of the variance of the mini-batch.
        feature_scalars: the same for features.
        flags: whether mini-batch statistics average over positions, and whether a deviation is computed around the
            selected mean.
        shape: G, N, C, area.
        start: first tile.
        stop: the one after the last.
        out: like x.
    """
    groups, size, channels, area = shape
    padded = (area + LANES - 1) // LANES * LANES
    whole = area // LANES * LANES
    length = channels * padded
    tile, scaled_gamma = np.empty(size * length, np.float32), np.empty(length, np.float32)
    all_gamma, all_beta = np.empty(length, np.float32), np.empty(length, np.float32)
    mean, work = np.empty(length, np.float32), np.empty(length, np.float32)
    feature_mean, feature_scale = np.empty(padded, np.float32), np.empty(padded, np.float32)
    population = np.empty(padded, np.float32), np.empty(padded, np.float32)
    plane = np.empty(padded, np.float32)
    _fill_planes(gamma, 0, channels, area, padded, all_gamma)
    _fill_planes(beta, 0, channels, area, padded, all_beta)
    for index in range(start, stop):
        row, origin = index // groups, index * size * channels * area
        _read_tile(x, origin, size * channels, area, padded, tile)
        inner = size, channels, area, padded
        _compute_batch_scale(tile, batch, row, batch_scalars, flags, inner, all_gamma, mean, scaled_gamma, work)
        _fill_planes(feature[0], row * area, 1, area, padded, population[0])
        _fill_planes(feature[1], row * area, 1, area, padded, population[1])
        for example in range(size):
            first = example * length
            _compute_feature_scale(
                tile,
                first,
                population,
                feature[2],
                row,
                feature_scalars,
                flags[1],
                channels,
                padded,
                feature_mean,
                feature_scale,
            )
            for channel in range(channels):
                c, target = channel * padded, origin + (example * channels + channel) * area
                for i in range(0, padded, LANES):
                    value = load(tile, first + c + i)
                    term = (value - load(feature_mean, i)) * load(feature_scale, i) * load(all_gamma, c + i)
                    result = (value - load(mean, c + i)) * load(scaled_gamma, c + i) + term + load(all_beta, c + i)
                    if i < whole:
                        store(out, target + i, result)
                    else:
                        store(plane, i, result)
                for i in range(whole, area):
                    out[target + i] = plane[i]
