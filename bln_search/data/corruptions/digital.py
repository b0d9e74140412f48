"""Digital processing: contrast, pixelation and JPEG compression.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.jpeg_quantization import quantize_as_jpeg

CONTRAST_FACTORS = (0.75, 0.5, 0.4, 0.3, 0.15)
"""Factor of the distance from the mean for severities 1 to 5."""

PIXELATE_FACTORS = (0.95, 0.9, 0.85, 0.75, 0.65)
"""Factor of height and width for severities 1 to 5."""

JPEG_QUALITIES = (80, 65, 58, 50, 40)
"""JPEG quality for severities 1 to 5."""


def contrast(images: Images, severity: int, _: Generators) -> Images:
    """Return mean + c·(x - mean) with the mean of each channel of each image."""
    mean = images.mean(axis=(2, 3), keepdims=True)
    return np.asarray(mean + CONTRAST_FACTORS[severity - 1] * (images - mean))


def pixelate(images: Images, severity: int, _: Generators) -> Images:
    """Shrink by averages over equal areas, and enlarge again by repeating the nearest pixel.

    Heights and widths are rounded down, so that severities may coincide for images of few pixels.
    """
    rows, columns = (_pixelation_weights(length, PIXELATE_FACTORS[severity - 1]) for length in images.shape[2:])
    return np.asarray(rows @ images @ columns.T)


def jpeg(images: Images, severity: int, _: Generators) -> Images:
    """Quantize 8×8 blocks of discrete cosine coefficients as JPEG does. See `quantize_as_jpeg`."""
    return quantize_as_jpeg(images, JPEG_QUALITIES[severity - 1])


def _pixelation_weights(length: int, factor: float) -> NDArray[np.float64]:
    """Weights (length, length) that replace each pixel by the average over the coarse pixel that contains it."""
    coarse = max(1, int(length * factor))
    edges = np.arange(coarse + 1) * length / coarse
    pixels = np.arange(length)
    starts, ends = np.maximum(edges[:-1, None], pixels), np.minimum(edges[1:, None], pixels + 1)
    averages: NDArray[np.float64] = np.maximum(ends - starts, 0.0) * coarse / length
    nearest = ((pixels + 0.5) * coarse / length).astype(int)
    return np.asarray(averages[nearest])
