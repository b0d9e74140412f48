"""The last two normalization layers of a per-layer traversal in one kernel, with the cross-entropy.

For each path, mini-batch and option of the last layer but one, a tile x = f(batch term + feature term) of a
mini-batch (N, D) is computed and stays in the cache. With W = w·diag(γ) of the linear layer w after the last
normalization layer, its logits are sums of a batch variant and a feature variant, as in `dense_sum`:

    batch:    W·diag(r)(x − μ) + W·diag(r)(μ − E)        r, E of the mini-batch or the population
    feature:  r·(W(x − m) + (m − E)·W·1)                 m, r of the example

so the four variants of each pair need the products of x − μ with W, with W·diag(r) of the population, and with
W·diag(r) of the mini-batch around each of its two means. The losses of all options of the last layer follow from
exponentials of the variants, as in `factored_cross_entropy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bln_search.norms.row_batching.compiled.class_scores import (
    add_answers_of_near_ties,
    add_scores,
    replace_by_exponentials,
)
from bln_search.norms.row_batching.compiled.compilation import compile_kernel
from bln_search.norms.row_batching.compiled.simd import LANES, load
from bln_search.norms.row_batching.compiled.tile_scores import (
    CLASS_BLOCK,
    TILE_LANES,
    compute_centred_tile,
    fill_relative_logits,
    fill_scaled_weights,
    fill_transposed,
    multiply_weight_block_by_tile,
)


@compile_kernel
def add_scores_of_last_layers(
    batch_terms: Any,
    feature_terms: Any,
    is_tanh: bool,
    rows: Any,
    targets: Any,
    weights: Any,
    weight_sums: Any,
    constant: Any,
    population_mean: Any,
    scalars: tuple[float, float, float, float, float],
    around_selected_mean: bool,
    last_rows: Any,
    shape: tuple[int, int, int, int, int],
    start: int,
    stop: int,
    losses: Any,
    correct: Any,
) -> None:
    """Add losses and correct answers of mini-batches from `start` to `stop`; of equal classes the first is the answer.

    Args:
        batch_terms: (variants, P·G, N, D), flat as all arrays of numbers; P paths, G mini-batches.
        feature_terms: (variants, P·G, N, D).
        is_tanh: whether f is tanh; otherwise ReLU.
        rows: for each option of the last layer but one, the indices of its batch variant and its feature variant.
        targets: classes, (G, N).
        weights: (D, 2, columns): W and W·diag(r) of the population, with zeros after the last class.
        weight_sums: W·1, (columns,).
        constant: wβ + b, (columns,).
        population_mean: of the units of the last layer.
        scalars: w_B, w_F, ε, mean and deviation of features of the population.
        around_selected_mean: whether a deviation is computed around the selected mean.
        last_rows: for each option of the last layer, its variants of both pairs: 2·(mean is of the population) + (the
            deviation is).
        shape: P·G, N, D, classes, columns (a multiple of LANES and more than CLASS_BLOCK − 1 above the classes).
        start: first mini-batch of all paths.
        stop: the one after the last.
        losses: sums, (options of the last layer, options of the last but one, P·G), float64.
        correct: numbers of correct answers, likewise, int64.
    """
    tiles, size, units, classes, columns = shape
    lanes = (size + TILE_LANES - 1) // TILE_LANES * TILE_LANES
    batch_variants = len(batch_terms) // (tiles * size * units)
    feature_variants = len(feature_terms) // (tiles * size * units)
    batch, feature = (
        np.empty(batch_variants * units * lanes, np.float32),
        np.empty(feature_variants * units * lanes, np.float32),
    )
    tile, mean, variance = np.empty(units * lanes, np.float32), np.empty(units, np.float32), np.empty(units, np.float32)
    all_weights = np.zeros(units * 4 * columns, np.float32)
    sums, products = np.empty(3 * columns, np.float32), np.empty(4 * columns * lanes, np.float32)
    one_hot, valid = np.zeros(classes * lanes, np.float32), np.zeros(lanes, np.float32)
    batch_values = np.empty(4 * classes * LANES, np.float32)
    feature_values = np.empty(4 * classes * LANES, np.float32)
    near_ties = np.empty(len(last_rows) * LANES, np.float32)
    for unit in range(units):
        for column in range(2 * columns):
            all_weights[unit * 4 * columns + column] = weights[unit * 2 * columns + column]
    valid[:size] = np.float32(1.0)
    blocks = 4 if around_selected_mean else 3
    groups = len(targets) // size
    for position in range(start, stop):
        for variant in range(batch_variants):
            origin = (variant * tiles + position) * size * units
            fill_transposed(batch_terms, origin, size, units, lanes, batch, variant * units * lanes)
        for variant in range(feature_variants):
            origin = (variant * tiles + position) * size * units
            fill_transposed(feature_terms, origin, size, units, lanes, feature, variant * units * lanes)
        one_hot[:] = np.float32(0.0)
        for example in range(size):
            one_hot[targets[position % groups * size + example] * lanes + example] = np.float32(1.0)
        for row in range(len(rows)):
            b, f = rows[row, 0] * units * lanes, rows[row, 1] * units * lanes
            compute_centred_tile(batch, b, feature, f, is_tanh, valid, size, units, lanes, tile, mean, variance)
            fill_scaled_weights(
                all_weights,
                mean,
                variance,
                population_mean,
                scalars,
                around_selected_mean,
                units,
                columns,
                sums,
            )
            for block in range(blocks):
                for k in range(0, classes, CLASS_BLOCK):
                    column = block * columns + k
                    for lane in range(0, lanes, TILE_LANES):
                        multiply_weight_block_by_tile(
                            all_weights, column, 4 * columns, tile, lane, lanes, units, products, column * lanes + lane
                        )
            if not around_selected_mean:
                products[3 * columns * lanes :] = products[2 * columns * lanes : 3 * columns * lanes]
            for lane in range(0, size, LANES):
                logits = batch_values, feature_values
                constants = tile, mean, products, sums, weight_sums, constant, one_hot, scalars, around_selected_mean
                fill_relative_logits(*constants, (units, lanes, classes, columns), lane, *logits)
                replace_by_exponentials(*logits, classes, one_hot, lane, lanes)
                place, stride = row * tiles + position, len(rows) * tiles
                valid_lanes = load(valid, lane)
                if (
                    add_scores(*logits, last_rows, classes, valid_lanes, losses, correct, place, stride, near_ties)
                    > 0.0
                ):
                    fill_relative_logits(*constants, (units, lanes, classes, columns), lane, *logits)
                    add_answers_of_near_ties(
                        *logits, last_rows, classes, one_hot, lane, lanes, correct, place, stride, near_ties
                    )
