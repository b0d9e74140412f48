"""Every corruption: shape, range, determinism for each example, severity, and errors for anything but images."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bln_search.core.corruption import SEVERITIES, Corruption
from bln_search.core.errors import DataError
from bln_search.core.registry import CORRUPTIONS
from bln_search.data.corruptions import corrupt_images
from bln_search.data.corruptions import corrupted_images as applying
from tests.data.corruptions.example_images import make_images

RANDOM = (
    *("elastic_transform", "fog", "frost", "gaussian_noise", "glass_blur", "impulse_noise", "motion_blur"),
    *("shot_noise", "snow"),
)
NOT_MONOTONIC = ("elastic_transform", "frost", "glass_blur")
"""Their published constants do not order the squared distances from the original."""


@pytest.mark.parametrize("name", CORRUPTIONS.built_in)
@pytest.mark.parametrize(
    "shape", [(2, 1, 28, 28), (2, 3, 32, 32), (1, 3, 9, 20), (3, 1, 8, 8), (1, 3, 1, 1), (1, 1, 1, 5)]
)
def test_result_has_shape_range_and_type(name, shape):
    images = make_images(shape[0], *shape[1:])
    before = images.copy()
    for severity in (1, 5):
        corrupted = corrupt_images(images, Corruption(name, severity))
        assert corrupted.shape == shape
        assert corrupted.dtype == np.float32
        assert corrupted.min() >= 0
        assert corrupted.max() <= 1
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("name", CORRUPTIONS.built_in)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_extreme_images_stay_in_range(name, value):
    corrupted = corrupt_images(np.full((2, 3, 16, 16), value, np.float32), Corruption(name, 5))
    assert corrupted.min() >= 0
    assert corrupted.max() <= 1


@pytest.mark.parametrize("name", CORRUPTIONS.built_in)
def test_an_example_is_the_same_in_every_order_and_batch(name, monkeypatch):
    monkeypatch.setattr(applying, "_SLICE_EXAMPLES", 7)
    images, corruption = make_images(20, height=12, width=12), Corruption(name, 4)
    ordered = corrupt_images(images, corruption, seed=3)
    order = np.random.default_rng(1).permutation(20)
    shuffled = corrupt_images(images[order], corruption, seed=3, indices=order)
    np.testing.assert_array_equal(shuffled, ordered[order])
    alone = [corrupt_images(images[[i]], corruption, seed=3, indices=[i])[0] for i in range(20)]
    np.testing.assert_array_equal(np.stack(alone), ordered)


@pytest.mark.parametrize("name", CORRUPTIONS.built_in)
def test_sorting_by_class_does_not_change_an_example(name):
    """The label of an example has no influence: classes sorted, and mixed, give the same images."""
    images, labels = make_images(12, height=10, width=10), np.arange(12) % 3
    by_class = np.argsort(labels, kind="stable")
    mixed = corrupt_images(images, Corruption(name))
    np.testing.assert_array_equal(corrupt_images(images[by_class], Corruption(name), indices=by_class), mixed[by_class])


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS.built_in if name not in NOT_MONOTONIC])
def test_distance_from_the_original_grows_with_severity(name):
    images = make_images(32).astype(np.float64)
    distances = [np.mean((corrupt_images(images, Corruption(name, s)) - images) ** 2) for s in SEVERITIES]
    assert 0 < 1.2 * distances[0] < distances[-1]
    assert all(weaker <= stronger * (1 + 1e-6) for weaker, stronger in pairwise(distances)), distances


@pytest.mark.parametrize("name", NOT_MONOTONIC)
def test_every_severity_changes_images(name):
    images = make_images(8)
    for severity in SEVERITIES:
        assert np.abs(corrupt_images(images, Corruption(name, severity)) - images).mean() > 0.02


def test_the_fifteen_corruptions_of_cifar_10_c_exist():
    assert len(CORRUPTIONS.built_in) == 15


@pytest.mark.parametrize("name", CORRUPTIONS.built_in)
def test_only_random_corruptions_depend_on_seed_and_index(name):
    images = np.repeat(make_images(1), 2, axis=0)
    first, second = corrupt_images(images, Corruption(name), seed=0)
    other_seed = corrupt_images(images[:1], Corruption(name), seed=1)[0]
    assert np.array_equal(first, second) == (name not in RANDOM)
    assert np.array_equal(first, other_seed) == (name not in RANDOM)


def test_corruptions_have_draws_of_their_own():
    name, other = (
        next(iter(applying.iter_random_generators_per_example(name, 0, [0]))).random(4)
        for name in ("fog", "shot_noise")
    )
    assert not np.array_equal(name, other)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((3, 32, 32)), r"images are 3×32×32: .*one or three channels"),
        (np.zeros((2, 2, 8, 8)), r"images are 2×2×8×8"),
        (np.zeros((2, 8, 8, 3)), r"images are 2×8×8×3"),
        (np.float64(0.5), r"images are a single number"),
        (np.zeros((0, 3, 8, 8)), r"no pixel"),
        (np.zeros((2, 1, 0, 8)), r"no pixel"),
        (np.zeros((1, 1, 4, 4), np.uint8), r"images are uint8: .*divide bytes by 255"),
        (np.full((1, 1, 4, 4), np.nan), r"NaN or infinity"),
        (np.full((1, 1, 4, 4), np.inf), r"NaN or infinity"),
        (np.full((1, 1, 4, 4), 255.0), r"from 255 to 255: .*before they are standardized"),
        (np.full((1, 1, 4, 4), -0.1), r"from -0\.1 to -0\.1"),
    ],
)
def test_anything_but_images_is_an_error_with_a_remedy(images, message):
    with pytest.raises(DataError, match=message):
        corrupt_images(images, Corruption("contrast"))


@pytest.mark.parametrize("seed", [-1, 1.5, True, None])
def test_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed is a whole number"):
        corrupt_images(make_images(1), Corruption("fog"), seed=seed)


@pytest.mark.parametrize("indices", [[0], [0, -1], [0.0, 1.0], [[0, 1]], 3])
def test_indices_are_one_whole_number_for_each_image(indices):
    with pytest.raises(ValueError, match="2 whole numbers"):
        corrupt_images(make_images(2), Corruption("fog"), indices=indices)
