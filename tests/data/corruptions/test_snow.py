"""Snow is compared with plain loops over its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.ndimage import zoom

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.blur import make_motion_kernel
from bln_search.data.corruptions.snow import SNOWFALLS, draw_flakes, snow
from tests.data.corruptions.example_images import make_images
from tests.data.corruptions.test_blur import continued, correlate_by_loop

PUBLISHED = [
    (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
]


def flakes_by_loop(generator, side, severity):
    """Flakes of a square image."""
    mean, deviation, factor, threshold, length, motion_deviation, _ = PUBLISHED[severity - 1]
    noise = mean + deviation * generator.standard_normal((side, side))
    inner = math.ceil(side / factor)
    start = (side - inner) // 2
    enlarged = zoom(noise[start : start + inner, start : start + inner], factor, order=1)
    start = (len(enlarged) - side) // 2
    flakes = enlarged[start : start + side, start : start + side].copy()
    for row, column in np.ndindex(side, side):
        flakes[row, column] = 0 if flakes[row, column] < threshold else min(flakes[row, column], 1)
    angle = generator.uniform(math.radians(45), math.radians(135))
    return correlate_by_loop(flakes, make_motion_kernel(length, motion_deviation, angle), continued)


def rng(seed=3):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_flakes_are_enlarged_noise_above_the_threshold_in_motion(severity):
    flakes = draw_flakes(rng(), (12, 12), SNOWFALLS[severity - 1])
    np.testing.assert_allclose(flakes, flakes_by_loop(rng(), 12, severity), atol=1e-12)
    assert 0 <= flakes.min() <= flakes.max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_snow_whitens_the_image_and_adds_flakes_and_turned_flakes(severity, channels):
    images = make_images(1, channels, 6, 9).astype(np.float64)
    flakes = draw_flakes(rng(), (6, 9), SNOWFALLS[severity - 1])
    share = PUBLISHED[severity - 1][-1]
    expected = np.empty_like(images)
    for row, column in np.ndindex(6, 9):
        pixel = images[0, :, row, column]
        grey = pixel[0] if channels == 1 else 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]
        for channel, value in enumerate(pixel):
            whitened = max(value, grey * 1.5 + 0.5)
            fallen = flakes[row, column] + flakes[5 - row, 8 - column]
            expected[0, channel, row, column] = share * value + (1 - share) * whitened + fallen
    np.testing.assert_allclose(snow(images, severity, [rng()]), expected, rtol=1e-12)
