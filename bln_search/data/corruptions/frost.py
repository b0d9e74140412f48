"""Frost: a weighted sum of the image and a texture of frost.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019. The textures of CIFAR-10-C are crops of five
photographs, reduced to a fifth. Here each image has a generated texture. Of 400 crops of 32×32 pixels of each
photograph, the mean brightness is from 0.48 to 0.81, the mean standard deviation from 0.04 to 0.09, and the power falls
with the frequency to the power of -2.0 to -2.8. The generated textures are within these ranges.
"""

from __future__ import annotations

import numpy as np

from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.weather import draw_fog_density

FROST_SHARES = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))
"""Weight of the image and weight of the frost for severities 1 to 5."""

LEVELS = (0.5, 0.8)
"""The mean brightness of a texture is uniform in this range."""

CONTRAST = 0.3
"""Height of the ridges."""

DECAY = 1.0
"""Decay of the fractal from octave to octave: all have the same weight."""

TINT = np.array([-0.06, 0.0, 0.05])[:, None, None]
"""Red, green and blue relative to the brightness: frost is bluish, as in the photographs."""


def frost(images: Images, severity: int, generators: Generators) -> Images:
    """Return s·x + c·f with a generated texture f of frost.

    Difference from CIFAR-10-C: its textures are photographs, these are generated (`draw_frost`).
    """
    image_share, frost_share = FROST_SHARES[severity - 1]
    textures = np.stack([draw_frost(generator, images.shape[1:]) for generator in generators])
    return image_share * images + frost_share * textures


def draw_frost(generator: np.random.Generator, shape: tuple[int, ...]) -> Images:
    """Return a texture (C, H, W), values from 0 to 1: bright, thin ridges of a fractal, as the needles of ice crystals.

    A ridge is where the fractal density d of `draw_fog_density` is near 1/2: its height is 1 - |2·d - 1|.

    Args:
        generator: Source of the fractal and the brightness.
        shape: Channels, height and width. Three channels are tinted, one is grey.
    """
    ridges = 1 - np.abs(2 * draw_fog_density(generator, shape[1:], DECAY) - 1)
    brightness = generator.uniform(*LEVELS) + CONTRAST * (ridges - ridges.mean())
    tint = TINT if shape[0] == len(TINT) else np.zeros((shape[0], 1, 1))
    return np.asarray(np.clip(brightness + tint, 0.0, 1.0))
