"""Glass blur is the loop over the pixels of the published data set, between two blurs of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.glass_blur import GLASS, draw_steps, glass_blur
from tests.data.corruptions.example_images import make_images


def glass_by_loop(image, deviation, shuffles, steps):
    """An image (H, W, C): from the last pixel to the first, each takes the colour of another one."""
    blurred = gaussian_filter(image, (deviation, deviation, 0), mode="nearest")
    height, width, _ = image.shape
    for shuffle in range(shuffles):
        for row in range(height - 1, 1, -1):
            for column in range(width - 1, 1, -1):
                up, left = steps[shuffle, :, row, column]
                blurred[row, column] = blurred[row - up, column - left]
    return gaussian_filter(blurred, (deviation, deviation, 0), mode="nearest")


def test_constants_are_the_published_ones():
    assert GLASS == ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("shape", [(3, 12, 12), (1, 8, 8), (3, 7, 11), (1, 2, 5)])
def test_glass_is_the_loop_over_pixels(severity, shape):
    images = make_images(2, *shape).astype(np.float64)
    blurred = glass_blur(images, severity, [np.random.default_rng(seed) for seed in (4, 5)])
    for image, result, seed in zip(images, blurred, (4, 5), strict=True):
        steps = draw_steps(np.random.default_rng(seed), *shape[1:])
        expected = glass_by_loop(np.moveaxis(image, 0, -1), *GLASS[severity - 1], steps)
        np.testing.assert_allclose(result, np.moveaxis(expected, -1, 0), atol=1e-13)


def test_steps_are_zero_or_one_with_equal_probability_and_zero_at_the_first_two_rows_and_columns():
    steps = draw_steps(np.random.default_rng(0), 102, 102)
    assert set(np.unique(steps)) == {0, 1}
    assert not steps[..., :2, :].any()
    assert not steps[..., :, :2].any()
    inner = steps[..., 2:, 2:]
    assert abs(inner.mean() - 0.5) < 4 * 0.5 / inner.size**0.5


def test_constant_images_stay_constant():
    images = np.full((1, 3, 10, 10), 0.3)
    np.testing.assert_allclose(glass_blur(images, 5, [np.random.default_rng(0)]), images, rtol=1e-12)
