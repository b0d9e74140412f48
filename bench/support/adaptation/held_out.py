"""Corruptions of CIFAR-10-C beside the fifteen, by which options are selected: the stream does not contain them.

Definitions and constants are those of the four further corruptions of Hendrycks & Dietterich 2019, without spatter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

Images = NDArray[np.float64]


def speckle_noise(images: Images, severity: int, generator: np.random.Generator) -> Images:
    """Noise in proportion to the values."""
    deviation = (0.06, 0.1, 0.12, 0.16, 0.2)[severity - 1]
    noisy: Images = np.clip(images + images * generator.normal(size=images.shape, scale=deviation), 0, 1)
    return noisy


def gaussian_blur(images: Images, severity: int, _: np.random.Generator) -> Images:
    """Blur of height and width."""
    deviation = (0.4, 0.6, 0.7, 0.8, 1.0)[severity - 1]
    blurred: Images = np.clip(gaussian_filter(images, (0, 0, deviation, deviation)), 0, 1)
    return blurred


def saturate(images: Images, severity: int, _: np.random.Generator) -> Images:
    """Saturation of the colour (HSV), scaled and shifted; the value of a pixel and its hue stay."""
    scale, shift = ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))[severity - 1]
    value = images.max(1, keepdims=True)
    chroma = value - images.min(1, keepdims=True)
    saturation = np.divide(chroma, value, out=np.zeros_like(value), where=value > 0)
    wanted = np.clip(saturation * scale + shift, 0, 1)
    factor = np.divide(wanted, saturation, out=np.zeros_like(value), where=saturation > 0)
    changed: Images = np.clip(value - (value - images) * factor, 0, 1)
    return changed


HELD_OUT: dict[str, Callable[[Images, int, np.random.Generator], Images]] = {
    "speckle_noise": speckle_noise,
    "gaussian_blur": gaussian_blur,
    "saturate": saturate,
}
"""The corruptions by name."""
