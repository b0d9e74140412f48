"""Crops and flips return pixels of the image, at random and reproducibly."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.specs.sections.training import AugmentationSpec
from bln_search.training.augmentation import Augmentation


def make_augmentation(seed=0, **spec):
    return Augmentation(AugmentationSpec(**spec), (2, 5, 4), torch.Generator().manual_seed(seed))


def possible_crops(image, crop, flip):
    """Yield all images that may result from one, by slicing."""
    for source in (image.flip(2), image) if flip else (image,):
        padded = torch.nn.functional.pad(source, (crop, crop, crop, crop))
        for row in range(2 * crop + 1):
            for column in range(2 * crop + 1):
                yield padded[:, row : row + 5, column : column + 4]


@pytest.mark.parametrize(("crop", "flip"), [(0, True), (2, False), (1, True)])
def test_every_possible_crop_occurs_and_no_other(crop, flip):
    image = torch.arange(1.0, 41.0).view(2, 5, 4)
    crops = list(possible_crops(image, crop, flip))
    occurred = set()
    for augmented in make_augmentation(crop=crop, flip=flip)(image.expand(400, -1, -1, -1).contiguous()):
        matches = [index for index, possible in enumerate(crops) if torch.equal(possible, augmented)]
        assert matches
        occurred.update(matches)
    assert len(occurred) == len(crops)


def test_inputs_other_than_images_are_an_error():
    with pytest.raises(ModelError, match=r"training\.augmentation .*\(64,\)"):
        Augmentation(AugmentationSpec(flip=True), (64,), torch.Generator())


def test_noise_has_the_variance_that_is_set_and_is_new_for_every_value():
    images = torch.full((200, 2, 5, 4), 0.25)
    augmentation = make_augmentation(noise=0.1)
    first, second = augmentation(images), augmentation(images)
    for noisy in (first, second):
        noise = (noisy - images).double()
        assert abs(float(noise.mean())) < 5 * (0.1 / noise.numel()) ** 0.5
        assert float(noise.var()) == pytest.approx(0.1, rel=5 * (2 / noise.numel()) ** 0.5)
    assert not (first == second).any()
    assert first.flatten(1).unique(dim=0).shape[0] == 200
