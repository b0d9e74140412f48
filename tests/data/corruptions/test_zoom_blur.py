"""Zoom blur is the mean over SciPy's enlargements by the factors of the published data set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.ndimage import zoom

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.zoom_blur import zoom_blur
from tests.data.corruptions.example_images import make_images

ENDS = (1.06, 1.11, 1.16, 1.21, 1.26)


def enlarge(image, factor):
    """The middle of an image (H, W), enlarged and cut to its size."""
    lengths = [math.ceil(length / factor) for length in image.shape]
    starts = [(length - inner) // 2 for length, inner in zip(image.shape, lengths, strict=True)]
    middle = image[starts[0] : starts[0] + lengths[0], starts[1] : starts[1] + lengths[1]]
    enlarged = zoom(middle, factor, order=1)
    starts = [(outer - length) // 2 for outer, length in zip(enlarged.shape, image.shape, strict=True)]
    return enlarged[starts[0] : starts[0] + image.shape[0], starts[1] : starts[1] + image.shape[1]]


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (8, 8), (20, 33)])
def test_zoom_is_the_mean_over_enlargements(severity, height, width):
    images = make_images(1, 3, height, width).astype(np.float64)
    blurred = zoom_blur(images, severity, ())
    for image, result in zip(images[0], blurred[0], strict=True):
        layers = [image, *(enlarge(image, factor) for factor in np.arange(1, ENDS[severity - 1], 0.01))]
        np.testing.assert_allclose(result, sum(layers) / len(layers), atol=1e-13)


def test_constant_images_stay_constant():
    images = np.full((1, 3, 10, 7), 0.3)
    np.testing.assert_allclose(zoom_blur(images, 5, ()), images, rtol=1e-12)
