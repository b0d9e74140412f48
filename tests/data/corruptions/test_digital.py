"""Contrast and pixelation are compared with plain loops, JPEG with its definition and with libjpeg's tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.fft import dctn

from bln_search.data.corruptions.digital import contrast, pixelate
from bln_search.data.corruptions.jpeg_quantization import (
    CHROMINANCE,
    LUMINANCE,
    discrete_cosine_basis,
    luminance_chrominance_to_rgb,
    quantize_as_jpeg,
    rgb_to_luminance_chrominance,
    scale_quantization_table,
)
from tests.data.corruptions.example_images import make_images


@pytest.mark.parametrize(("severity", "factor"), list(enumerate([0.75, 0.5, 0.4, 0.3, 0.15], start=1)))
def test_contrast_shrinks_distances_from_the_mean(severity, factor):
    images = make_images(2, height=5, width=4).astype(np.float64)
    expected = np.empty_like(images)
    for n, channel in np.ndindex(2, 3):
        plane = images[n, channel]
        mean = sum(plane.ravel().tolist()) / plane.size
        for row, column in np.ndindex(plane.shape):
            expected[n, channel, row, column] = (plane[row, column] - mean) * factor + mean
    np.testing.assert_allclose(contrast(images, severity, ()), expected, rtol=1e-12)


def pixelate_by_loop(plane, factor):
    """Averages over coarse pixels, weighted by the covered area; then the coarse pixel at each pixel centre."""
    height, width = plane.shape
    rows, columns = max(1, int(height * factor)), max(1, int(width * factor))
    coarse = np.zeros((rows, columns))
    for i, j in np.ndindex(rows, columns):
        top, bottom = i * height / rows, (i + 1) * height / rows
        left, right = j * width / columns, (j + 1) * width / columns
        for y, x in np.ndindex(height, width):
            covered = max(0, min(bottom, y + 1) - max(top, y)) * max(0, min(right, x + 1) - max(left, x))
            coarse[i, j] += covered * plane[y, x] / ((bottom - top) * (right - left))
    result = np.empty_like(plane)
    for y, x in np.ndindex(height, width):
        result[y, x] = coarse[int((y + 0.5) * rows / height), int((x + 0.5) * columns / width)]
    return result


@pytest.mark.parametrize(("severity", "factor"), [(1, 0.95), (5, 0.65)])
@pytest.mark.parametrize(("height", "width"), [(10, 7), (12, 12), (1, 3)])
def test_pixelation_averages_equal_areas(severity, factor, height, width):
    images = make_images(1, 1, height, width).astype(np.float64)
    expected = pixelate_by_loop(images[0, 0], factor)
    np.testing.assert_allclose(pixelate(images, severity, ())[0, 0], expected, rtol=1e-10)


@pytest.mark.parametrize(("severity", "coarse"), list(enumerate([30, 28, 27, 24, 20], start=1)))
def test_pixelated_cifar_image_has_the_published_size(severity, coarse):
    image = np.broadcast_to(np.arange(32) / 32, (1, 1, 32, 32)).astype(np.float64)
    assert len(np.unique(pixelate(image, severity, ())[0, 0, 0].round(9))) == coarse


def test_cosine_basis_is_that_of_the_definition():
    expected = np.empty((8, 8))
    for u, x in np.ndindex(8, 8):
        expected[u, x] = math.sqrt((1 if u == 0 else 2) / 8) * math.cos((2 * x + 1) * u * math.pi / 16)
    np.testing.assert_allclose(discrete_cosine_basis(), expected, atol=1e-15)
    np.testing.assert_allclose(discrete_cosine_basis() @ discrete_cosine_basis().T, np.eye(8), atol=1e-14)
    block = np.random.default_rng(0).normal(size=(8, 8))
    np.testing.assert_allclose(
        discrete_cosine_basis() @ block @ discrete_cosine_basis().T, dctn(block, norm="ortho"), atol=1e-13
    )


def test_tables_are_scaled_by_quality():
    np.testing.assert_array_equal(scale_quantization_table(LUMINANCE, 50), LUMINANCE)
    np.testing.assert_array_equal(scale_quantization_table(CHROMINANCE, 100), np.ones((8, 8)))
    assert scale_quantization_table(LUMINANCE, 40)[0].tolist() == [
        20,
        14,
        13,
        20,
        30,
        50,
        64,
        76,
    ]  # as libjpeg writes them
    assert scale_quantization_table(LUMINANCE, 80)[0].tolist() == [6, 4, 4, 6, 10, 16, 20, 24]
    assert scale_quantization_table(CHROMINANCE, 1).max() == 255


def test_colour_transform_is_that_of_jfif_and_invertible():
    images = np.random.default_rng(0).random((1, 3, 2, 2)) * 255
    planes = rgb_to_luminance_chrominance(images)
    red, green, blue = images[0, :, 0, 0]
    expected = [
        0.299 * red + 0.587 * green + 0.114 * blue,
        -0.168736 * red - 0.331264 * green + 0.5 * blue,
        0.5 * red - 0.418688 * green - 0.081312 * blue,
    ]
    np.testing.assert_allclose(planes[0, :, 0, 0], expected, atol=1e-3)
    np.testing.assert_allclose(luminance_chrominance_to_rgb(planes), images, atol=1e-10)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 28), (5, 9)])
def test_quality_100_is_nearly_exact(channels, height, width):
    images = make_images(2, channels, height, width).astype(np.float64)
    difference = quantize_as_jpeg(images, 100) - images
    assert (
        np.sqrt((difference**2).mean()) < 0.6 / 255
    )  # uniform rounding: 0.29 of a byte, 0.49 after the colour transform
    assert np.abs(difference).max() < 3 / 255


def test_quantization_of_a_block_is_that_of_the_definition():
    image = make_images(1, 1, 8, 8).astype(np.float64)
    block = image[0, 0] * 255 - 128
    expected = np.zeros((8, 8))
    for u, v in np.ndindex(8, 8):
        wave = np.outer(discrete_cosine_basis()[u], discrete_cosine_basis()[v])
        divisor = scale_quantization_table(LUMINANCE, 40)[u, v]
        expected += round(float((block * wave).sum()) / divisor) * divisor * wave
    np.testing.assert_allclose(quantize_as_jpeg(image, 40)[0, 0], (expected + 128) / 255, atol=1e-12)
