"""Strokes of a pen along the lines of a thinned image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHORTEST_STROKE = 3
"""Pixels of the shortest stroke beside another one; shorter ones are remainders of junctions."""

_DIRECTION_STEPS = 3
"""Steps over which the direction of a stroke is measured."""

_SMOOTHING = 2
"""Pixels to both sides over which the place of a pixel is averaged."""

Stroke = NDArray[np.float64]
"""Places (points, 2) of a pen, x to the right and y downwards, in pixels."""


def trace_strokes(skeleton: NDArray[np.bool_]) -> list[Stroke]:
    """Return strokes that cover the pixels of a skeleton (h, w), (x, y) of each pixel in the order of the pen.

    A stroke begins at the uppermost line end, or at the uppermost pixel where there is no line end. It goes on to the
    pixel that changes its direction least, until no neighbour is left. Strokes shorter than `SHORTEST_STROKE` are left
    out, unless all are.
    """
    width = skeleton.shape[1] + 1  # with a column of background, so that the ends of two rows are no neighbours
    rows, columns = np.nonzero(skeleton)
    remaining = set((rows * width + columns).tolist())
    strokes: list[list[int]] = []
    while remaining:
        strokes.append(_follow_line(remaining, _find_start(remaining, width), width))
    long_enough = [stroke for stroke in strokes if len(stroke) >= SHORTEST_STROKE] or strokes
    return [np.stack(np.divmod(stroke, width)[::-1], 1).astype(np.float64) for stroke in long_enough]


def _find_start(pixels: set[int], width: int) -> int:
    """Return the uppermost pixel with at most one neighbour; without one the uppermost pixel."""
    ordered = sorted(pixels)
    return next((pixel for pixel in ordered if len(_list_neighbours(pixel, pixels, width)) < 2), ordered[0])


def _list_neighbours(pixel: int, pixels: set[int], width: int) -> list[int]:
    """Return the neighbours of a pixel; those beside, above and below it come first."""
    steps = (1, width, -1, -width, width + 1, width - 1, 1 - width, -width - 1)
    return [pixel + step for step in steps if pixel + step in pixels]


def _follow_line(remaining: set[int], start: int, width: int) -> list[int]:
    """Return the pixels of a stroke, numbers row·width + column, and remove them from the remaining ones."""
    remaining.discard(start)
    stroke = [start]
    while neighbours := _list_neighbours(stroke[-1], remaining, width):
        following = neighbours[0]
        if len(neighbours) > 1 and len(stroke) > 1:
            before = stroke[-1 - min(_DIRECTION_STEPS, len(stroke) - 1)]
            following = _find_straightest(neighbours, stroke[-1], before, width)
        remaining.discard(following)
        stroke.append(following)
    return stroke


def _find_straightest(neighbours: list[int], pixel: int, before: int, width: int) -> int:
    """Return the first neighbour of a pixel for which the pen turns least, coming from an earlier pixel."""
    row, column = divmod(pixel, width)
    row_before, column_before = divmod(before, width)

    def measure_straightness(neighbour: int) -> float:
        to_row, to_column = divmod(neighbour, width)
        down, right = to_row - row, to_column - column
        forward = down * (row - row_before) + right * (column - column_before)
        return float(forward / (down * down + right * right) ** 0.5)

    return max(neighbours, key=measure_straightness)


def smooth(stroke: Stroke) -> Stroke:
    """Return the mean place over up to two pixels to both sides; the ends stay where they are."""
    number = len(stroke)
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(stroke, 0)])
    positions = np.arange(number)
    reach = np.minimum(_SMOOTHING, np.minimum(positions, number - 1 - positions))
    smoothed: Stroke = (sums[positions + reach + 1] - sums[positions - reach]) / (2 * reach + 1)[:, None]
    return smoothed


def resample(stroke: Stroke, spacing: float) -> Stroke:
    """Return points at equal distances along a stroke, about `spacing` apart, with both ends.

    Args:
        stroke: places (points, 2).
        spacing: distance of points, in pixels.
    """
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(stroke, axis=0).T))])
    segments = max(1, round(float(lengths[-1]) / spacing)) if len(stroke) > 1 else 0
    places = np.linspace(0, lengths[-1], segments + 1)
    return np.stack([np.interp(places, lengths, stroke[:, axis]) for axis in (0, 1)], 1)
