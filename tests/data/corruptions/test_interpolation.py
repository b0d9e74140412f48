"""Smoothing, zoom and bilinear samples are those of SciPy, at every edge."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d, map_coordinates, zoom

from bln_search.data.corruptions.interpolation import sample_bilinearly, smoothing_weights, zoom_weights
from tests.data.corruptions.example_images import make_images

SCIPY_MODES = {"edge": "nearest", "symmetric": "reflect", "reflect": "mirror"}


@pytest.mark.parametrize("edge", SCIPY_MODES)
@pytest.mark.parametrize(("length", "deviation"), [(9, 0.05), (9, 0.4), (12, 1.3), (3, 6.4), (1, 2.0)])
def test_smoothing_is_the_truncated_gaussian(length, deviation, edge):
    values = np.random.default_rng(0).normal(size=(length, 4))
    expected = gaussian_filter1d(values, deviation, axis=0, truncate=3.0, mode=SCIPY_MODES[edge])
    weights = smoothing_weights(length, deviation, truncate=3.0, edge=edge)
    np.testing.assert_allclose(weights @ values, expected, atol=1e-14)


def test_smoothing_without_deviation_changes_nothing():
    np.testing.assert_array_equal(smoothing_weights(5, 0.0, truncate=4.0, edge="edge"), np.eye(5))


@pytest.mark.parametrize("length", [1, 2, 8, 28, 32, 33])
@pytest.mark.parametrize("factor", [1.0, 1.03, 1.25, 1.75, 2.25, 4.5])
def test_zoom_enlarges_the_middle_linearly(length, factor):
    values = np.random.default_rng(0).normal(size=length)
    inner = int(np.ceil(length / factor))
    start = (length - inner) // 2
    enlarged = zoom(values[start : start + inner], factor, order=1)
    start = (len(enlarged) - length) // 2
    np.testing.assert_allclose(zoom_weights(length, factor) @ values, enlarged[start : start + length], atol=1e-13)


@pytest.mark.parametrize("edge", SCIPY_MODES)
@pytest.mark.parametrize(("height", "width"), [(6, 9), (2, 3), (1, 1), (1, 4)])
def test_samples_are_interpolated_within_and_beyond_the_edges(height, width, edge):
    images = make_images(2, 3, height, width).astype(np.float64)
    generator = np.random.default_rng(1)
    rows = generator.uniform(-2 * height, 3 * height, (2, height, width))
    columns = generator.uniform(-2 * width, 3 * width, (2, height, width))
    sampled = sample_bilinearly(images, rows, columns, edge)
    for n, channel in np.ndindex(2, 3):
        positions = np.stack([rows[n], columns[n]])
        expected = map_coordinates(images[n, channel], positions, order=1, mode=SCIPY_MODES[edge])
        np.testing.assert_allclose(sampled[n, channel], expected, atol=1e-12)
