"""Blur: defocus and motion, each a convolution with a kernel of sum 1. Beyond its edges an image is mirrored.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.interpolation import Edge

DEFOCUS_DISKS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
"""Radius of the disk, and standard deviation of the Gaussian that smooths it, in pixels, for severities 1 to 5."""

MOTION_PATHS = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))
"""Half the largest length of the path, and standard deviation of its weights, in pixels, for severities 1 to 5.

Severities 3 and 4 differ by weights below 1e-9 only, as in the published data set.
"""

MAX_ANGLE = math.pi / 4
"""The direction of a motion is uniform from -MAX_ANGLE to MAX_ANGLE around the horizontal."""

Kernel = NDArray[np.float64]
"""Weights (k, k) with k odd, centred, of sum 1."""


def defocus_blur(images: Images, severity: int, _: Generators) -> Images:
    """Convolve with a smoothed disk."""
    kernel = make_disk_kernel(*DEFOCUS_DISKS[severity - 1])
    return correlate(images, kernel)


def motion_blur(images: Images, severity: int, generators: Generators) -> Images:
    """Convolve each image with the path of a motion in a random direction."""
    length, deviation = MOTION_PATHS[severity - 1]
    blurred = np.empty_like(images)
    for index, generator in enumerate(generators):
        kernel = make_motion_kernel(length, deviation, generator.uniform(-MAX_ANGLE, MAX_ANGLE))
        blurred[index] = correlate(images[index], kernel)
    return blurred


def correlate(images: NDArray[np.float64], kernel: Kernel, edge: Edge = "reflect") -> NDArray[np.float64]:
    """Return weighted sums over the neighbourhood of each pixel of images (..., H, W); `edge` lies beyond them."""
    height, width = images.shape[-2:]
    reach = len(kernel) // 2
    padded = np.pad(images, [(0, 0)] * (images.ndim - 2) + [(reach, reach)] * 2, mode=edge)
    result = np.zeros_like(images)
    for row, column in np.argwhere(kernel):
        result += kernel[row, column] * padded[..., row : row + height, column : column + width]
    return result


def make_disk_kernel(radius: float, deviation: float) -> Kernel:
    """Return a disk, smoothed by a Gaussian over 3×3 pixels.

    Args:
        radius: Of the disk, in pixels. A pixel belongs to the disk if its centre does.
        deviation: Standard deviation of the Gaussian, in pixels.
    """
    reach = math.floor(radius) + 1  # one pixel for the Gaussian
    offsets = np.arange(-reach, reach + 1)
    disk = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(np.float64)
    weights = np.exp(-(np.arange(-1, 2) ** 2) / (2 * deviation**2))
    smoothed = correlate(np.pad(disk, 1), np.outer(weights, weights))[1:-1, 1:-1]
    return np.asarray(smoothed / smoothed.sum())


def make_motion_kernel(length: int, deviation: float, angle: float) -> Kernel:
    """Return the path of a motion that ends at the centre: a half Gaussian along a line.

    The weight at distance i is exp(-i²/(2·deviation²)) for i from 0 to 2·length. It is divided among the four nearest
    pixels in proportion to their distance (bilinear).

    Args:
        length: Half the length of the path, in pixels.
        deviation: Standard deviation of the Gaussian, in pixels.
        angle: Direction, in radians from the horizontal.
    """
    reach = 2 * length
    kernel = np.zeros((2 * reach + 3, 2 * reach + 3))  # one pixel more on each side, for the bilinear division
    distances = np.arange(reach + 1)
    weights = np.exp(-(distances**2) / (2 * deviation**2))
    rows, columns = reach + 1 + distances * math.sin(angle), reach + 1 + distances * math.cos(angle)
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = rows - top, columns - left
    for row, row_share in ((top, 1 - down), (top + 1, down)):
        for column, column_share in ((left, 1 - right), (left + 1, right)):
            np.add.at(kernel, (row, column), weights * row_share * column_share)
    return np.asarray(kernel / kernel.sum())
