"""The lossy part of JPEG: quantization of discrete cosine coefficients. Entropy coding is lossless and not needed.

Source: ITU-T T.81 (1992), Annexes A and K; colours: ITU-T T.871 (2011); scaling of the tables by quality: libjpeg of
the Independent JPEG Group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Images

Matrix = NDArray[np.float64]

BLOCK = 8
"""Pixels of a block's side."""

LUMINANCE: Matrix = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    dtype=np.float64,
)
"""Quantization table of luminance at quality 50: T.81, Table K.1."""

CHROMINANCE: Matrix = np.array(
    [
        [17, 18, 24, 47, 99, 99, 99, 99],
        [18, 21, 26, 66, 99, 99, 99, 99],
        [24, 26, 56, 99, 99, 99, 99, 99],
        [47, 66, 99, 99, 99, 99, 99, 99],
        [99, 99, 99, 99, 99, 99, 99, 99],
        [99, 99, 99, 99, 99, 99, 99, 99],
        [99, 99, 99, 99, 99, 99, 99, 99],
        [99, 99, 99, 99, 99, 99, 99, 99],
    ],
    dtype=np.float64,
)
"""Quantization table of chrominance at quality 50: T.81, Table K.2."""


def quantize_as_jpeg(images: Images, quality: int) -> Images:
    """Return the images after quantization at a JPEG quality.

    Chrominance has the resolution of luminance (4:4:4), and values are not rounded to 8 bits. Images whose sides are
    not multiples of 8 are extended by their last row and column. One channel is luminance.

    Args:
        images: (N, C, H, W), values from 0 to 1.
        quality: From 1 to 100; 100 quantizes to whole coefficients.
    """
    planes = rgb_to_luminance_chrominance(images * 255)
    planes[:, 0] -= 128  # the level shift; chrominance is centred at 0
    tables = [scale_quantization_table(LUMINANCE, quality), *[scale_quantization_table(CHROMINANCE, quality)] * 2]
    compressed = np.stack(
        [_quantize_plane(planes[:, channel], tables[channel]) for channel in range(images.shape[1])], axis=1
    )
    compressed[:, 0] += 128
    return luminance_chrominance_to_rgb(compressed) / 255


def scale_quantization_table(table: Matrix, quality: int) -> Matrix:
    """Return the quantization table of a quality: divisors from 1 to 255."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.clip(np.floor((table * scale + 50) / 100), 1, 255)


def discrete_cosine_basis() -> Matrix:
    """Return the orthonormal basis of the discrete cosine transform: row u is cos((2x + 1)uπ/16), scaled."""
    positions = np.arange(BLOCK)
    basis = np.cos((2 * positions + 1) * positions[:, None] * np.pi / (2 * BLOCK)) * np.sqrt(2 / BLOCK)
    basis[0] /= np.sqrt(2)
    return np.asarray(basis)


def rgb_to_luminance_chrominance(images: Images) -> Images:
    """Return Y, Cb and Cr of red, green and blue, chrominance around 0; a copy for images of one channel."""
    if images.shape[1] == 1:
        return images.copy()
    red, green, blue = images[:, 0], images[:, 1], images[:, 2]
    luminance = 0.299 * red + 0.587 * green + 0.114 * blue
    return np.stack([luminance, (blue - luminance) / 1.772, (red - luminance) / 1.402], axis=1)


def luminance_chrominance_to_rgb(planes: Images) -> Images:
    """Return red, green and blue: the inverse of `rgb_to_luminance_chrominance`."""
    if planes.shape[1] == 1:
        return planes
    luminance, blueness, redness = planes[:, 0], planes[:, 1], planes[:, 2]
    red, blue = luminance + 1.402 * redness, luminance + 1.772 * blueness
    green = (luminance - 0.299 * red - 0.114 * blue) / 0.587
    return np.stack([red, green, blue], axis=1)


def _quantize_plane(plane: NDArray[np.float64], table: Matrix) -> NDArray[np.float64]:
    """Quantize the coefficients of a plane (N, H, W) in blocks."""
    examples, height, width = plane.shape
    padded = np.pad(plane, ((0, 0), (0, -height % BLOCK), (0, -width % BLOCK)), mode="edge")
    _, tall, wide = padded.shape
    blocks = padded.reshape(examples, tall // BLOCK, BLOCK, wide // BLOCK, BLOCK).transpose(0, 1, 3, 2, 4)
    basis = discrete_cosine_basis()
    coefficients = np.round(basis @ blocks @ basis.T / table) * table
    restored = (basis.T @ coefficients @ basis).transpose(0, 1, 3, 2, 4).reshape(padded.shape)
    return np.asarray(restored[:, :height, :width])
