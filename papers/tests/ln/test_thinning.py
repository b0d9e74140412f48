"""Thinning against a loop over pixels, and what a skeleton keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from bln_search_papers.ln.thinning import thin
from tests.support.mnist_files import make_small_mnist


def thin_by_loop(image):
    """Zhang & Suen 1984, one pixel after the other; P2 to P9 clockwise from the pixel above."""
    image = {(int(row), int(column)) for row, column in np.argwhere(image)}
    while True:
        before = set(image)
        for first in (True, False):
            deleted = set()
            for row, column in image:
                ring = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]
                p = [(row + down, column + right) in image for down, right in ring]  # p[0] is P2
                p2, p4, p6, p8 = p[0], p[2], p[4], p[6]
                changes = sum(not p[k] and p[(k + 1) % 8] for k in range(8))
                edges = (p2 and p4 and p6, p4 and p6 and p8) if first else (p2 and p4 and p8, p2 and p6 and p8)
                if 2 <= sum(p) <= 6 and changes == 1 and not any(edges):
                    deleted.add((row, column))
            image -= deleted
        if image == before:
            return image


def pixels_of(image):
    return {(int(row), int(column)) for row, column in np.argwhere(image)}


def test_skeletons_equal_a_loop_over_pixels():
    random = np.random.default_rng(0)
    noise = random.random((20, 12, 9)) < 0.7
    digits = make_small_mnist().test_inputs[:10, 0] > 127
    for images in (noise, digits):
        for image, skeleton in zip(images, thin(images), strict=True):
            assert pixels_of(skeleton) == thin_by_loop(image)


def test_pixels_outside_the_image_are_background():
    image = np.ones((1, 6, 5), bool)
    padded = np.pad(image, ((0, 0), (2, 2), (3, 3)))
    np.testing.assert_array_equal(thin(padded)[:, 2:-2, 3:-3], thin(image))


def test_connected_parts_of_digits_stay_connected_and_inside():
    digits = make_small_mnist().test_inputs[:, 0] > 127
    for image, skeleton in zip(digits, thin(digits), strict=True):
        assert not (skeleton & ~image).any()
        parts = [ndimage.label(pixels, np.ones((3, 3)))[1] for pixels in (image, skeleton)]
        assert parts[0] == parts[1] > 0


@pytest.mark.parametrize("number", [0, 1, 5_000])
def test_every_number_of_images_is_thinned(number):
    image = np.zeros((8, 8), bool)
    image[2:6, 1:7] = True
    skeletons = thin(np.repeat(image[None], number, 0))
    assert skeletons.shape == (number, 8, 8)
    assert all(np.array_equal(skeleton, thin(image[None])[0]) for skeleton in skeletons[:: max(1, number // 3)])
