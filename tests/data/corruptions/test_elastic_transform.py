"""The elastic transform is compared with plain loops over its definition, and with SciPy's filter and interpolation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.elastic_transform import elastic_transform, map_affinely
from tests.data.corruptions.example_images import make_images

PUBLISHED = ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))


def three_points(height, width):
    """Rows and columns of the corners that the affine map moves."""
    half = max(1, min(height, width) // 3)
    row, column = height // 2, width // 2
    return np.array([[row + half, column + half], [row - half, column + half], [row - half, column - half]], float)


def affine_by_loop(plane, moved):
    """The image of a plane under the affine map of the three points to `moved`, mirrored beyond its edges."""
    points = three_points(*plane.shape)
    forward = np.column_stack([moved[0] - moved[1], moved[1] - moved[2]]) @ np.linalg.inv(
        np.column_stack([points[0] - points[1], points[1] - points[2]])
    )
    offset = moved[0] - forward @ points[0]
    result = np.empty_like(plane)
    for row, column in np.ndindex(plane.shape):
        position = np.linalg.solve(forward, np.array([row, column]) - offset)
        result[row, column] = map_coordinates(plane, position[:, None], order=1, mode="mirror")[0]
    return result


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("shape", [(3, 12, 12), (1, 8, 8), (1, 9, 14), (1, 3, 2)])
def test_transform_is_the_loop_over_pixels(severity, shape):
    channels, height, width = shape
    images = make_images(2, *shape).astype(np.float64)
    displacement, deviation, jitter = (min(height, width) * part for part in PUBLISHED[severity - 1])
    transformed = elastic_transform(images, severity, [np.random.default_rng(seed) for seed in (1, 2)])
    for image, result, seed in zip(images, transformed, (1, 2), strict=True):
        generator = np.random.default_rng(seed)
        moved = three_points(height, width) + jitter * generator.uniform(-1, 1, (3, 2))
        shifts = generator.uniform(-1, 1, (2, height, width))
        if deviation:
            shifts = np.stack([gaussian_filter(shift, deviation, mode="reflect", truncate=3) for shift in shifts])
        positions = np.indices((height, width)) + displacement * shifts
        for channel in range(channels):
            expected = map_coordinates(affine_by_loop(image[channel], moved), positions, order=1, mode="reflect")
            np.testing.assert_allclose(result[channel], expected, atol=1e-12)


def test_affine_map_without_jitter_is_the_identity():
    rows, columns = map_affinely(np.zeros((1, 3, 2)), 5, 7)
    np.testing.assert_allclose(rows[0], np.indices((5, 7))[0], atol=1e-12)
    np.testing.assert_allclose(columns[0], np.indices((5, 7))[1], atol=1e-12)


def test_affine_map_of_equal_shifts_is_a_translation():
    rows, columns = map_affinely(np.full((1, 3, 2), [1.0, -2.0]), 8, 8)
    np.testing.assert_allclose(rows[0], np.indices((8, 8))[0] - 1, atol=1e-12)
    np.testing.assert_allclose(columns[0], np.indices((8, 8))[1] + 2, atol=1e-12)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_constant_images_stay_constant(severity):
    images = np.full((1, 3, 9, 9), 0.3)
    transformed = elastic_transform(images, severity, [np.random.default_rng(0)])
    np.testing.assert_allclose(transformed, images, rtol=1e-12)
