"""Glass blur: neighbouring pixels are exchanged at random, between two Gaussian blurs.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.interpolation import smoothing_weights

GLASS = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
"""Standard deviation of both Gaussians in pixels, and number of shuffles, for severities 1 to 5."""

_MAX_SHUFFLES = max(shuffles for _, shuffles in GLASS)
_FIRST = 2
"""Pixels of the first rows and columns stay in place, as in the published data set."""


def glass_blur(images: Images, severity: int, generators: Generators) -> Images:
    """Blur, replace each pixel by itself or a neighbour above, left or both with equal probability, and blur again.

    A shuffle copies: the statement of `make_cifar_c.py` that exchanges two pixels overwrites the first one and leaves
    the second. Images of two rows or columns are only blurred. Values are not rounded to 8 bits in between.
    """
    deviation, shuffles = GLASS[severity - 1]
    height, width = images.shape[2:]
    rows, columns = (smoothing_weights(length, deviation, truncate=4.0, edge="edge") for length in (height, width))
    shuffled = rows @ images @ columns.T
    steps = np.stack([draw_steps(generator, height, width) for generator in generators])
    for step in range(shuffles):
        shuffled = _copy_neighbours(shuffled, steps[:, step])
    return np.asarray(rows @ shuffled @ columns.T)


def draw_steps(generator: np.random.Generator, height: int, width: int) -> NDArray[np.int_]:
    """Return (shuffles, 2, height, width): by how many rows and columns each pixel looks up and left, 0 or 1."""
    steps = np.zeros((_MAX_SHUFFLES, 2, height, width), dtype=int)
    inner = steps[..., _FIRST:, _FIRST:]
    inner[...] = generator.integers(0, 2, inner.shape)
    return steps


def _copy_neighbours(images: Images, steps: NDArray[np.int_]) -> Images:
    """Images (N, C, H, W) whose pixels are those at the positions before `steps` (N, 2, H, W)."""
    examples, channels, height, width = images.shape
    rows, columns = np.arange(height)[:, None] - steps[:, 0], np.arange(width) - steps[:, 1]
    flat = (rows * width + columns).reshape(examples, 1, -1)
    copied = np.take_along_axis(images.reshape(examples, channels, -1), flat, axis=2)
    return np.asarray(copied.reshape(images.shape))
