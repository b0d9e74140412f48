"""Fog is a convex combination with a random density; brightness is that of the HSV colour space."""

from __future__ import annotations

import colorsys
import math

import numpy as np
import pytest

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.weather import FOG, brightness, draw_fog_density, fog
from tests.data.corruptions.example_images import make_images


def rng():
    return np.random.default_rng(7)


def density_by_loop(generator, height, width, decay):
    """Sum over octaves of bilinear interpolation, pixel by pixel."""
    side = max(height, width)
    density = np.zeros((height, width))
    for octave in range(math.ceil(math.log2(side)) + 1):
        cells = 2**octave
        noise = generator.random((cells + 1, cells + 1))
        for row in range(height):
            for column in range(width):
                y, x = (row + 0.5) * cells / side, (column + 0.5) * cells / side
                top, left = int(y), int(x)
                down, right = y - top, x - left
                upper = noise[top, left] * (1 - right) + noise[top, left + 1] * right
                lower = noise[top + 1, left] * (1 - right) + noise[top + 1, left + 1] * right
                density[row, column] += (upper * (1 - down) + lower * down) / decay**octave
    return (density - density.min()) / (density.max() - density.min())


@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 12), (28, 28)])
def test_density_is_interpolated_noise_from_zero_to_one(height, width):
    density = draw_fog_density(rng(), (height, width), 2.5)
    np.testing.assert_allclose(density, density_by_loop(rng(), height, width, 2.5), atol=1e-12)
    assert density.min() == 0
    assert density.max() == 1


def test_density_of_one_pixel_is_in_the_middle():
    assert draw_fog_density(rng(), (1, 1), 3.0).tolist() == [[0.5]]


def test_a_larger_decay_is_a_smoother_density():
    rough, smooth = (draw_fog_density(rng(), (32, 32), decay) for decay in (1.75, 3.0))
    assert np.abs(np.diff(smooth)).mean() < np.abs(np.diff(rough)).mean()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_fog_is_a_weighted_mean_with_its_density(severity):
    images = make_images(1).astype(np.float64)
    amount, decay = FOG[severity - 1]
    density = draw_fog_density(rng(), (32, 32), decay)
    expected = np.empty_like(images)
    for channel in range(3):
        expected[0, channel] = (images[0, channel] + amount * density) / (1 + amount)
    np.testing.assert_allclose(fog(images, severity, [rng()]), expected, rtol=1e-12)


@pytest.mark.parametrize(("severity", "increase"), list(enumerate([0.05, 0.1, 0.15, 0.2, 0.3], start=1)))
def test_brightness_increases_the_value_in_hsv(severity, increase):
    images = np.random.default_rng(0).random((2, 3, 5, 5))
    images[0, :, 0, 0] = 0.0  # black
    images[0, :, 0, 1] = 1.0  # white
    images[0, :, 0, 2] = 0.4, 0.4, 0.4  # grey
    expected = np.empty_like(images)
    for n, row, column in np.ndindex(2, 5, 5):
        hue, saturation, value = colorsys.rgb_to_hsv(*images[n, :, row, column])
        expected[n, :, row, column] = colorsys.hsv_to_rgb(hue, saturation, min(value + increase, 1))
    np.testing.assert_allclose(brightness(images, severity, ()), expected, atol=1e-12)


def test_brightness_of_one_channel_is_a_sum():
    images = make_images(2, 1).astype(np.float64)
    np.testing.assert_allclose(brightness(images, 5, ()), np.minimum(images + 0.3, 1), rtol=1e-12)
