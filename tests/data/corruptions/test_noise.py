"""Noise has the published mean and deviation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bln_search.core.corruption import SEVERITIES
from bln_search.data.corruptions.corrupted_images import iter_random_generators_per_example
from bln_search.data.corruptions.noise import gaussian_noise, impulse_noise, shot_noise

IMAGES = np.full((40, 3, 32, 32), 0.4)
"""122,880 equal values, far from the limits of the range."""


def corrupted_by(function, severity):
    return function(IMAGES, severity, iter_random_generators_per_example("noise", 0, range(len(IMAGES))))


@pytest.mark.parametrize(("severity", "deviation"), list(enumerate([0.04, 0.06, 0.08, 0.09, 0.10], start=1)))
def test_gaussian_noise_has_mean_zero_and_the_published_deviation(severity, deviation):
    noise = corrupted_by(gaussian_noise, severity) - IMAGES
    standard_error = deviation / noise.size**0.5
    assert abs(noise.mean()) < 4 * standard_error
    assert abs(noise.std() - deviation) < 4 * standard_error / 2**0.5
    assert 0.67 < (np.abs(noise) < deviation).mean() < 0.70


def test_gaussian_noise_is_independent_over_channels_and_images():
    noise = corrupted_by(gaussian_noise, 5) - IMAGES
    for first, second in ((noise[0, 0], noise[0, 1]), (noise[0, 0], noise[1, 0])):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.12


@pytest.mark.parametrize(("severity", "photons"), list(enumerate([500, 250, 100, 75, 50], start=1)))
def test_shot_noise_has_the_variance_of_a_poisson_count(severity, photons):
    values = corrupted_by(shot_noise, severity)
    counts = values * photons
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    deviation = (0.4 / photons) ** 0.5
    assert abs(values.mean() - 0.4) < 4 * deviation / values.size**0.5
    assert values.std() == pytest.approx(deviation, rel=0.02)


def test_shot_noise_leaves_black_pixels_black():
    black = np.zeros((1, 1, 4, 4))
    np.testing.assert_array_equal(shot_noise(black, 5, iter_random_generators_per_example("shot_noise", 0, [0])), black)


@pytest.mark.parametrize(("severity", "fraction"), list(enumerate([0.01, 0.02, 0.03, 0.05, 0.07], start=1)))
def test_impulse_noise_changes_the_published_fraction(severity, fraction):
    values = corrupted_by(impulse_noise, severity)
    standard_error = (fraction / values.size) ** 0.5
    assert abs((values == 0).mean() - fraction / 2) < 4 * standard_error
    assert abs((values == 1).mean() - fraction / 2) < 4 * standard_error
    assert set(np.unique(values)) == {0.0, 0.4, 1.0}


def test_impulses_of_a_severity_are_among_those_of_the_next():
    changed = [corrupted_by(impulse_noise, severity) != IMAGES for severity in SEVERITIES]
    for weaker, stronger in pairwise(changed):
        assert not (weaker & ~stronger).any()
