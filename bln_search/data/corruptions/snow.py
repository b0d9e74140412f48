"""Snow: flakes in motion over a whitened image.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bln_search.data.corruptions.blur import correlate, make_motion_kernel
from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.interpolation import zoom_weights
from bln_search.data.corruptions.jpeg_quantization import rgb_to_luminance_chrominance


class Snowfall(NamedTuple):
    """Constants of a severity.

    Attributes:
        mean: Of the normal noise that flakes are made of.
        deviation: Its standard deviation.
        zoom: How many times the noise is enlarged.
        threshold: Noise below it is no flake.
        length: Half the largest length of a flake's path, in pixels.
        motion_deviation: Standard deviation of the weights of the path, in pixels.
        image_share: Weight of the image; the rest is its whitened form.
    """

    mean: float
    deviation: float
    zoom: float
    threshold: float
    length: int
    motion_deviation: float
    image_share: float


SNOWFALLS = (
    Snowfall(0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
    Snowfall(0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
    Snowfall(0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
    Snowfall(0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
    Snowfall(0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
)
"""For severities 1 to 5."""

ANGLES = (math.pi / 4, 3 * math.pi / 4)
"""The direction of the flakes is uniform between these angles from the horizontal."""


def snow(images: Images, severity: int, generators: Generators) -> Images:
    """Return s·x + (1 - s)·max(x, 1.5·y + 0.5) + f + f', with the luminance y of each pixel.

    f are the flakes, the same for all channels, and f' is f turned by half a turn. The image share is s.
    """
    snowfall = SNOWFALLS[severity - 1]
    flakes = np.stack([draw_flakes(generator, images.shape[2:], snowfall) for generator in generators])[:, None]
    luminance = rgb_to_luminance_chrominance(images)[:, :1]
    whitened = np.maximum(images, 1.5 * luminance + 0.5)
    mixed = snowfall.image_share * images + (1 - snowfall.image_share) * whitened
    return np.asarray(mixed + flakes + flakes[..., ::-1, ::-1])


def draw_flakes(generator: np.random.Generator, shape: tuple[int, ...], snowfall: Snowfall) -> NDArray[np.float64]:
    """Return flakes (H, W), values from 0 to 1: enlarged normal noise above a threshold, blurred by its motion.

    Beyond the edges the outermost flakes continue, so that the long paths of high severities leave streaks there.

    Args:
        generator: Source of the noise and of the direction.
        shape: Height and width.
        snowfall: Constants of the severity.
    """
    noise = snowfall.mean + snowfall.deviation * generator.standard_normal(shape)
    rows, columns = (zoom_weights(length, snowfall.zoom) for length in shape)
    enlarged = rows @ noise @ columns.T
    flakes = np.where(enlarged < snowfall.threshold, 0.0, np.minimum(enlarged, 1.0))
    kernel = make_motion_kernel(snowfall.length, snowfall.motion_deviation, generator.uniform(*ANGLES))
    return correlate(flakes, kernel, edge="edge")
