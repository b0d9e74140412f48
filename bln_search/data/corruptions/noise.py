"""Noise: Gaussian, shot (Poisson) and impulse (salt and pepper).

Every value of an image has noise of its own, independent over channels. Source of the constants: `make_cifar_c.py` of
Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import numpy as np

from bln_search.data.corruptions.function import Generators, Images

GAUSSIAN_DEVIATIONS = (0.04, 0.06, 0.08, 0.09, 0.10)
"""Standard deviation of Gaussian noise for severities 1 to 5."""

SHOT_PHOTONS = (500, 250, 100, 75, 50)
"""Expected count of photons at the value 1 for severities 1 to 5."""

IMPULSE_FRACTIONS = (0.01, 0.02, 0.03, 0.05, 0.07)
"""Fraction of values that become 0 or 1 for severities 1 to 5."""


def gaussian_noise(images: Images, severity: int, generators: Generators) -> Images:
    """Return x + σ·z with z from the standard normal distribution."""
    deviation = GAUSSIAN_DEVIATIONS[severity - 1]
    noise = [generator.standard_normal(images.shape[1:]) for generator in generators]
    return images + deviation * np.stack(noise)


def shot_noise(images: Images, severity: int, generators: Generators) -> Images:
    """Return k/λ with k from the Poisson distribution of mean λ·x."""
    photons = SHOT_PHOTONS[severity - 1]
    counts = [generator.poisson(photons * image) for image, generator in zip(images, generators, strict=True)]
    return np.stack(counts) / photons


def impulse_noise(images: Images, severity: int, generators: Generators) -> Images:
    """Set a fraction of the values to 0 or 1, with equal probability."""
    half = IMPULSE_FRACTIONS[severity - 1] / 2
    draws = np.stack([generator.random(images.shape[1:]) for generator in generators])
    return np.where(draws < half, 0.0, np.where(draws >= 1 - half, 1.0, images))
