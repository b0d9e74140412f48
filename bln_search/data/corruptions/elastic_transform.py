"""Elastic transform: an affine map that moves three points at random, then a smooth random displacement of each pixel.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019; of the displacements: Simard et al. 2003,
Best Practices for Convolutional Neural Networks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.interpolation import sample_bilinearly, smoothing_weights


class Elasticity(NamedTuple):
    """Constants of a severity, as fractions of the shorter side of the image.

    Attributes:
        displacement: Factor of the smoothed displacements, which are uniform from -1 to 1 before they are smoothed.
        deviation: Standard deviation of the Gaussian that smooths them.
        jitter: Largest shift of a point of the affine map along each axis.
    """

    displacement: float
    deviation: float
    jitter: float


ELASTICITIES = (
    Elasticity(0.0, 0.0, 0.08),
    Elasticity(0.05, 0.2, 0.07),
    Elasticity(0.08, 0.06, 0.06),
    Elasticity(0.1, 0.04, 0.05),
    Elasticity(0.1, 0.03, 0.03),
)
"""For severities 1 to 5."""

Field = NDArray[np.float64]


def elastic_transform(images: Images, severity: int, generators: Generators) -> Images:
    """Map each image by a random affine map, then displace its pixels. Both interpolate bilinearly."""
    elasticity = ELASTICITIES[severity - 1]
    height, width = images.shape[2:]
    side = min(height, width)
    draws = [_draw(generator, height, width) for generator in generators]
    jitter, displacements = (np.stack(parts) for parts in zip(*draws, strict=True))
    rows, columns = map_affinely(elasticity.jitter * side * jitter, height, width)
    mapped = sample_bilinearly(images, rows, columns, "reflect")
    smooth_rows, smooth_columns = (
        smoothing_weights(length, elasticity.deviation * side, truncate=3.0, edge="symmetric")
        for length in (height, width)
    )
    shifts = elasticity.displacement * side * (smooth_rows @ displacements @ smooth_columns.T)
    down, right = shifts[:, 0] + np.arange(height)[:, None], shifts[:, 1] + np.arange(width)
    return sample_bilinearly(mapped, down, right, "symmetric")


def map_affinely(jitter: Field, height: int, width: int) -> tuple[Field, Field]:
    """Return the row and the column of the image that each pixel of the mapped image shows, both (N, H, W).

    The map moves three corners of a square in the middle of the image by `jitter` (N, 3, 2), rows and columns. The
    square has a side of two thirds of the shorter side of the image.
    """
    half = max(1, min(height, width) // 3)
    corners = np.array([height // 2, width // 2]) + half * np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    moved = np.concatenate([corners + jitter, np.ones((len(jitter), 3, 1))], axis=2)
    inverse = np.linalg.solve(moved, np.broadcast_to(corners, (len(jitter), 3, 2)))  # (N, 3, 2), applied from the right
    down, right = np.arange(height)[:, None], np.arange(width)
    row, column = (inverse[:, :, axis, None, None] for axis in (0, 1))
    return (
        row[:, 0] * down + row[:, 1] * right + row[:, 2],
        column[:, 0] * down + column[:, 1] * right + column[:, 2],
    )


def _draw(generator: np.random.Generator, height: int, width: int) -> tuple[Field, Field]:
    """Uniform values from -1 to 1: shifts of three points (3, 2), and displacements of the pixels (2, H, W)."""
    return generator.uniform(-1, 1, (3, 2)), generator.uniform(-1, 1, (2, height, width))
