"""Blur is a convolution with a kernel of sum 1, mirrored at the edges: compared with plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.blur import (
    DEFOCUS_DISKS,
    MOTION_PATHS,
    defocus_blur,
    make_disk_kernel,
    make_motion_kernel,
    motion_blur,
)
from tests.data.corruptions.example_images import make_images


def mirrored(index, length):
    """The pixel that stands for one beyond the edge: the last pixel is not repeated."""
    period = 2 * (length - 1)
    index %= period
    return min(index, period - index)


def continued(index, length):
    """The pixel that stands for one beyond the edge: the last one."""
    return min(max(index, 0), length - 1)


def correlate_by_loop(image, kernel, beyond=mirrored):
    """Weighted sums over the neighbourhood of each pixel."""
    height, width = image.shape
    reach = len(kernel) // 2
    result = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            for i, weights in enumerate(kernel):
                for j, weight in enumerate(weights):
                    y, x = beyond(row + i - reach, height), beyond(column + j - reach, width)
                    result[row, column] += weight * image[y, x]
    return result


def assert_is_kernel(kernel):
    assert kernel.shape[0] == kernel.shape[1]
    assert kernel.shape[0] % 2 == 1
    assert kernel.min() >= 0
    assert kernel.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("angle", [-math.pi / 4, -0.3, 0.0, 0.2, math.pi / 4])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_motion_kernel_sums_to_one(severity, angle):
    assert_is_kernel(make_motion_kernel(*MOTION_PATHS[severity - 1], angle))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_disk_kernel_sums_to_one_and_is_symmetric(severity):
    kernel = make_disk_kernel(*DEFOCUS_DISKS[severity - 1])
    assert_is_kernel(kernel)
    np.testing.assert_allclose(kernel, kernel.T)
    np.testing.assert_allclose(kernel, kernel[::-1])


def test_motion_kernel_of_the_horizontal_is_a_half_gaussian():
    kernel = make_motion_kernel(6, 1.5, 0.0)
    centre = len(kernel) // 2
    weights = [math.exp(-(i**2) / (2 * 1.5**2)) for i in range(13)]
    expected = np.zeros_like(kernel)
    expected[centre, centre : centre + 13] = np.array(weights) / sum(weights)
    np.testing.assert_allclose(kernel, expected, atol=1e-15)


@pytest.mark.parametrize("angle", [-0.7, 0.4])
def test_motion_kernel_has_the_mean_of_its_path(angle):
    kernel = make_motion_kernel(8, 2.0, angle)
    offsets = np.arange(len(kernel)) - len(kernel) // 2
    weights = np.exp(-(np.arange(17) ** 2) / 8)
    mean_distance = (weights * np.arange(17)).sum() / weights.sum()
    assert (kernel.sum(0) * offsets).sum() == pytest.approx(mean_distance * math.cos(angle))
    assert (kernel.sum(1) * offsets).sum() == pytest.approx(mean_distance * math.sin(angle))


def test_disk_of_radius_one_has_five_pixels():
    kernel = make_disk_kernel(1.0, 0.01)
    centre = len(kernel) // 2
    expected = np.zeros_like(kernel)
    for row, column in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)):
        expected[centre + row, centre + column] = 0.2
    np.testing.assert_allclose(kernel, expected, atol=1e-12)


def test_small_disk_is_the_gaussian_that_smooths_it():
    weights = np.array([math.exp(-1 / (2 * 0.5**2)), 1.0, math.exp(-1 / (2 * 0.5**2))])
    np.testing.assert_allclose(make_disk_kernel(0.4, 0.5), np.outer(weights, weights) / weights.sum() ** 2)


@pytest.mark.parametrize("severity", [3, 5])
def test_defocus_is_the_loop_over_the_disk(severity):
    images = make_images(1, 3, 6, 7).astype(np.float64)
    blurred = defocus_blur(images, severity, ())
    kernel = make_disk_kernel(*DEFOCUS_DISKS[severity - 1])
    for channel in range(3):
        np.testing.assert_allclose(blurred[0, channel], correlate_by_loop(images[0, channel], kernel), rtol=1e-10)


def test_motion_is_the_loop_over_the_path_of_each_image():
    images = make_images(2, 1, 9, 8).astype(np.float64)
    blurred = motion_blur(images, 2, [np.random.default_rng(seed) for seed in (4, 5)])
    for image, result, seed in zip(images, blurred, (4, 5), strict=True):
        angle = np.random.default_rng(seed).uniform(-math.pi / 4, math.pi / 4)
        kernel = make_motion_kernel(*MOTION_PATHS[1], angle)
        np.testing.assert_allclose(result[0], correlate_by_loop(image[0], kernel), rtol=1e-10)


@pytest.mark.parametrize("function", [defocus_blur, motion_blur])
def test_constant_images_stay_constant(function):
    images = np.full((2, 3, 10, 10), 0.3)
    blurred = function(images, 5, [np.random.default_rng(seed) for seed in range(2)])
    np.testing.assert_allclose(blurred, images, rtol=1e-12)
