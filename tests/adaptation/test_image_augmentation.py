"""Random changes of images: each one against a loop over pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bln_search.adaptation.image_augmentation import augment_images, blur_images, change_colors, move_images


def make_images(n=3, channels=3, height=7, width=6):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, channels, height, width, generator=generator, dtype=torch.float64)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_colors_follow_the_formula():
    images = make_images(1)
    b, c, s, g = 1.3, 0.8, 0.6, 1.2
    x = np.clip(b * images[0].numpy(), 0, 1)
    x = np.clip(c * x + (1 - c) * x.mean(), 0, 1)
    x = np.clip(s * x + (1 - s) * x.mean(0), 0, 1) ** g
    changed = change_colors(images, tensor(b), tensor(c), tensor(s), tensor(g))
    np.testing.assert_allclose(changed[0], x, atol=1e-12)
    np.testing.assert_allclose(change_colors(images, *[tensor(1.0)] * 4), images, atol=1e-12)


def test_moved_images_are_interpolated_at_the_turned_scaled_and_shifted_position():
    images = make_images(2)
    angles, shifts, scales = (0.2, -0.1), ((0.05, -0.03), (0.0, 0.06)), (1.1, 0.9)
    moved = move_images(images, tensor(*angles), tensor(*shifts), tensor(*scales))
    _, channels, height, width = images.shape
    for i, (angle, shift, scale) in enumerate(zip(angles, shifts, scales, strict=True)):
        for row in range(height):
            for column in range(width):
                u, v = (2 * column + 1) / width - 1, (2 * row + 1) / height - 1
                x = (math.cos(angle) * u - math.sin(angle) * v) / scale + 2 * shift[0]
                y = (math.sin(angle) * u + math.cos(angle) * v) / scale + 2 * shift[1]
                px = min(max(((x + 1) * width - 1) / 2, 0), width - 1)
                py = min(max(((y + 1) * height - 1) / 2, 0), height - 1)
                x0, y0 = min(int(px), width - 2), min(int(py), height - 2)
                dx, dy = px - x0, py - y0
                for channel in range(channels):
                    a = images[i, channel]
                    top = (1 - dx) * a[y0, x0] + dx * a[y0, x0 + 1]
                    bottom = (1 - dx) * a[y0 + 1, x0] + dx * a[y0 + 1, x0 + 1]
                    assert float(moved[i, channel, row, column]) == pytest.approx(
                        float((1 - dy) * top + dy * bottom), abs=1e-10
                    )


def test_blurred_images_are_weighted_means_of_neighbors():
    images = make_images(2, 1)
    blurred = blur_images(images, tensor(0.5, 0.9))
    height, width = images.shape[2:]
    for i, deviation in enumerate((0.5, 0.9)):
        for row in range(height):
            for column in range(width):
                total = weights = 0.0
                for dy in range(-2, 3):
                    for dx in range(-2, 3):
                        weight = math.exp(-(dx**2 + dy**2) / (2 * deviation**2))
                        y, x = min(max(row + dy, 0), height - 1), min(max(column + dx, 0), width - 1)
                        total += weight * float(images[i, 0, y, x])
                        weights += weight
                assert float(blurred[i, 0, row, column]) == pytest.approx(total / weights, abs=1e-12)


def test_augmented_images_stay_in_the_range_and_come_from_the_generator():
    images = 3 * make_images(16) - 1
    state = torch.get_rng_state()
    first, second, other = (augment_images(images, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert first.shape == images.shape
    assert first.min() >= images.min() - 1e-12
    assert first.max() <= images.max() + 1e-12
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 1, 4)])
def test_constant_and_small_images_are_finite(shape):
    generator = torch.Generator().manual_seed(0)
    assert augment_images(torch.zeros(shape), generator).isfinite().all()
