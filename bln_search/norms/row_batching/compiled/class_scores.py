"""Parts of the kernel of the last two layers: losses and correct answers of all options from relative logits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bln_search.norms.row_batching.compiled.simd import (
    LANES,
    load,
    select_if_equal,
    select_if_less,
    splat,
    store,
    sum_of_lanes,
)
from bln_search.norms.row_batching.compiled.vector_math import exp, log1p


@njit(nogil=True, error_model="numpy")
def replace_by_exponentials(batch: Any, feature: Any, classes: int, one_hot: Any, lane: int, lanes: int) -> None:
    """Replace relative logits, (4, classes, LANES), by their exponentials, and those of targets in `batch` by zero."""
    for k in range(classes):
        others = 1.0 - load(one_hot, k * lanes + lane)
        for variant in range(4):
            position = (variant * classes + k) * LANES
            store(batch, position, exp(load(batch, position)) * others)
            store(feature, position, exp(load(feature, position)))


@njit(nogil=True, error_model="numpy")
def add_scores(
    batch: Any,
    feature: Any,
    rows: Any,
    classes: int,
    valid: Any,
    losses: Any,
    correct: Any,
    place: int,
    stride: int,
    near_ties: Any,
) -> float:
    """Add sums of losses and numbers of answers above all other classes, of all rows.

    Args:
        batch: exponentials, (4, classes, LANES).
        feature: likewise.
        rows: for each row, its variants of both pairs.
        classes: their number.
        valid: one for examples, zero for fillers.
        losses: to which is added, flat.
        correct: likewise.
        place: of the first row.
        stride: between two rows.
        near_ties: where the largest product is one, so that rounding may hide which class is larger: (rows, LANES).

    Returns:
        The number of near ties.
    """
    number = splat(0.0)
    for row in range(len(rows)):
        b, f = rows[row, 0] * classes * LANES, rows[row, 1] * classes * LANES
        total = largest = load(batch, b) * load(feature, f)
        for k in range(1, classes):
            product = load(batch, b + k * LANES) * load(feature, f + k * LANES)
            total = total + product
            largest = select_if_less(largest, product, product, largest)
        losses[place + row * stride] += sum_of_lanes(log1p(total) * valid)
        is_correct = select_if_less(largest, 1.0, 1.0, 0.0)
        correct[place + row * stride] += np.int64(sum_of_lanes(is_correct * valid))
        is_near_tie = select_if_equal(largest, 1.0, valid, 0.0)
        store(near_ties, row * LANES, is_near_tie)
        number = number + is_near_tie
    found: float = sum_of_lanes(number)
    return found


@njit(nogil=True, error_model="numpy")
def add_answers_of_near_ties(
    batch: Any,
    feature: Any,
    rows: Any,
    classes: int,
    one_hot: Any,
    lane: int,
    lanes: int,
    correct: Any,
    place: int,
    stride: int,
    near_ties: Any,
) -> None:
    """Add the numbers of answers that no class exceeds and no earlier class equals, from relative logits."""
    for row in range(len(rows)):
        b, f = rows[row, 0] * classes * LANES, rows[row, 1] * classes * LANES
        defeats = is_target_seen = splat(0.0)
        for k in range(classes):
            is_target = load(one_hot, k * lanes + lane)
            is_target_seen = is_target_seen + is_target
            difference = load(batch, b + k * LANES) + load(feature, f + k * LANES)
            is_later = is_target_seen - is_target
            defeats = defeats + select_if_less(difference, 0.0, 0.0, 1.0 - is_target)
            defeats = defeats - select_if_equal(difference, 0.0, is_later, 0.0)
        is_correct = select_if_equal(defeats, 0.0, load(near_ties, row * LANES), 0.0)
        correct[place + row * stride] += np.int64(sum_of_lanes(is_correct))
