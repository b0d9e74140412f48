"""Weather and light: fog and brightness.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.function import Generators, Images

FOG = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
"""Amount of fog, and decay of its density from octave to octave, for severities 1 to 5."""

BRIGHTNESS_INCREASES = (0.05, 0.1, 0.15, 0.2, 0.3)
"""Increase of the largest channel of a pixel for severities 1 to 5."""


def fog(images: Images, severity: int, generators: Generators) -> Images:
    """Return (x + c·f)/(1 + c) with a random density f of fog, the same for all channels.

    Differences from CIFAR-10-C: its density is a diamond-square fractal, and an image keeps its own largest value.
    """
    amount, decay = FOG[severity - 1]
    density = np.stack([draw_fog_density(generator, images.shape[2:], decay) for generator in generators])
    return (images + amount * density[:, None]) / (1 + amount)


def draw_fog_density(generator: np.random.Generator, shape: tuple[int, ...], decay: float) -> NDArray[np.float64]:
    """Return fractal noise from 0 to 1: octaves of uniform noise on ever finer grids, bilinearly interpolated.

    Args:
        generator: Source of the noise.
        shape: Height and width.
        decay: Octave k has the weight decay^-k and grid cells of 2^-k times the longer side.
    """
    side = max(shape)
    octaves = math.ceil(math.log2(side)) + 1
    density = np.zeros(shape)
    for octave in range(octaves):
        cells = 2**octave
        noise = generator.random((cells + 1, cells + 1))
        rows, columns = (_interpolation_weights(length, side, cells) for length in shape)
        density += decay**-octave * (rows @ noise @ columns.T)
    low, high = density.min(), density.max()
    return np.asarray((density - low) / (high - low)) if high > low else np.full(shape, 0.5)


def _interpolation_weights(length: int, side: int, cells: int) -> NDArray[np.float64]:
    """Weights (length, cells + 1) of the linear interpolation at pixel centres between the points of a grid."""
    positions = (np.arange(length) + 0.5) * cells / side
    return np.asarray(np.maximum(0.0, 1 - np.abs(positions[:, None] - np.arange(cells + 1))))


def brightness(images: Images, severity: int, _: Generators) -> Images:
    """Increase the value V of each pixel in the HSV colour space: hue and saturation are unchanged.

    V is the largest channel v. All channels are multiplied by min(v + c, 1)/v; a black pixel becomes grey. With one
    channel this is min(x + c, 1).
    """
    value = images.max(axis=1, keepdims=True)
    brighter = np.minimum(value + BRIGHTNESS_INCREASES[severity - 1], 1.0)
    is_black = value == 0
    ratio = images / np.where(is_black, 1.0, value)  # at most 1, so that no subnormal value overflows
    return np.asarray(brighter * np.where(is_black, 1.0, ratio))
