"""Frost is a weighted sum with a generated texture, whose figures are in the range of the photographs it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.data.corruptions.frost import draw_frost, frost
from tests.data.corruptions.example_images import make_images


def textures(shape, count=200):
    return np.stack([draw_frost(np.random.default_rng(seed), shape) for seed in range(count)])


@pytest.mark.parametrize(
    ("severity", "image_share", "frost_share"),
    [(1, 1.0, 0.2), (2, 1.0, 0.3), (3, 0.9, 0.4), (4, 0.85, 0.4), (5, 0.75, 0.45)],
)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 5, 9)])
def test_frost_is_the_sum_with_the_published_weights(severity, image_share, frost_share, shape):
    images = make_images(2, *shape).astype(np.float64)
    frosted = frost(images, severity, [np.random.default_rng(seed) for seed in (6, 7)])
    for image, result, seed in zip(images, frosted, (6, 7), strict=True):
        texture = draw_frost(np.random.default_rng(seed), shape)
        expected = np.empty_like(image)
        for index in np.ndindex(shape):
            expected[index] = image_share * image[index] + frost_share * texture[index]
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_textures_have_the_brightness_and_deviation_of_the_photographs():
    grey = textures((3, 32, 32)).mean(1)
    brightness, deviations = grey.mean((1, 2)), grey.std((1, 2))
    assert 0.48 < brightness.min() < 0.52
    assert 0.78 < brightness.max() < 0.81
    assert deviations.min() > 0.04
    assert deviations.max() < 0.09


def test_power_of_textures_falls_with_frequency_as_that_of_the_photographs():
    grey = textures((3, 32, 32)).mean(1)
    window = np.outer(np.hanning(32), np.hanning(32))
    power = (np.abs(np.fft.fft2((grey - grey.mean((1, 2), keepdims=True)) * window)) ** 2).mean(0)
    frequencies = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.fftfreq(32))
    inner = (frequencies > 0.07) & (frequencies < 0.45)
    exponent = np.polyfit(np.log(frequencies[inner]), np.log(power[inner]), 1)[0]
    assert -2.8 < exponent < -2.0


def test_frost_is_bluish_in_colour_and_grey_otherwise():
    red, green, blue = textures((3, 8, 8)).mean((0, 2, 3))
    assert red < green < blue
    assert textures((1, 8, 8)).mean() == pytest.approx(green, abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 6), (3, 40, 9)])
def test_textures_of_any_size_are_in_range(shape):
    values = textures(shape, count=20)
    assert values.shape == (20, *shape)
    assert 0 <= values.min() <= values.max() <= 1
