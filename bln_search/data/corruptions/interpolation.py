"""Linear maps of image rows and columns, and bilinear samples: what several corruptions build on."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Images

Edge = Literal["edge", "symmetric", "reflect"]
"""What lies beyond the edge: the last pixel, or the mirror image with the last pixel repeated or not."""

Weights = NDArray[np.float64]
"""Weights (length, length): each output pixel as a weighted mean of input pixels."""


def smoothing_weights(length: int, deviation: float, *, truncate: float, edge: Edge) -> Weights:
    """Return the convolution with a Gaussian along one axis.

    Args:
        length: Of the axis, in pixels.
        deviation: Standard deviation of the Gaussian, in pixels.
        truncate: The Gaussian ends at the pixel nearest to this number of deviations.
        edge: What lies beyond the edge.
    """
    reach = int(truncate * deviation + 0.5)
    if reach == 0:
        return np.eye(length)
    gaussian = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * deviation**2))
    padded = np.eye(length)[_mirror(np.arange(-reach, length + reach), length, edge)]
    shifted = np.lib.stride_tricks.sliding_window_view(padded, length, axis=0)  # (2·reach + 1, length, length)
    return np.asarray(np.tensordot(gaussian / gaussian.sum(), shifted, axes=1).T)


def zoom_weights(length: int, factor: float) -> Weights:
    """Return the linear interpolation that enlarges the middle of an axis to its whole length.

    The middle ceil(length/factor) pixels are enlarged to the whole number nearest to `factor` times as many, the first
    and the last pixel kept in place, and cut to the length. So factors near 1 may change nothing.

    Args:
        length: Of the axis, in pixels.
        factor: At least 1.
    """
    inner = math.ceil(length / factor)
    outer = round(inner * factor)
    positions = np.arange(outer) * ((inner - 1) / max(1, outer - 1))
    start = (outer - length) // 2
    positions = positions[start : start + length] + (length - inner) // 2
    return np.asarray(np.maximum(0.0, 1 - np.abs(positions[:, None] - np.arange(length))))


def sample_bilinearly(images: Images, rows: NDArray[np.float64], columns: NDArray[np.float64], edge: Edge) -> Images:
    """Return the images at other positions, interpolated between the four nearest pixels.

    Args:
        images: (N, C, H, W).
        rows: (N, H, W), the row of the image that each pixel shows.
        columns: (N, H, W), its column.
        edge: What lies beyond the edge.
    """
    height, width = images.shape[2:]
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = rows - top, columns - left
    example = np.arange(len(images))[:, None, None]
    result = np.zeros_like(images)
    for row, row_share in ((top, 1 - down), (top + 1, down)):
        for column, column_share in ((left, 1 - right), (left + 1, right)):
            pixels = images[example, :, _mirror(row, height, edge), _mirror(column, width, edge)]  # (N, H, W, C)
            result += np.moveaxis(pixels, -1, 1) * (row_share * column_share)[:, None]
    return result


def _mirror(index: NDArray[np.int_], length: int, edge: Edge) -> NDArray[np.int_]:
    """The pixel that stands for one beyond the edge."""
    if edge == "edge":
        return np.clip(index, 0, length - 1)
    repeated = int(edge == "symmetric")
    period = max(1, 2 * length - 2 + 2 * repeated)
    inside = index % period
    return np.minimum(inside, period - repeated - inside)
