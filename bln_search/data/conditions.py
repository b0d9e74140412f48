"""Validation and test images under a condition of a study: corrupted, then standardized like the clean images."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data.corruptions import corrupt_images
from bln_search.data.corruptions.corrupted_images import validated_images
from bln_search.data.prepared import PreparedData, UnstandardizedInputs
from bln_search.specs.sections.condition import ConditionSpec


def make_corrupted_validation_and_test_splits(
    data: PreparedData, condition: ConditionSpec
) -> dict[Split, tuple[Tensor, Tensor]]:
    """Return inputs (n, C, H, W) and targets (n,) of the validation and the test split under a condition.

    The images are scaled to values from 0 to 1, corrupted, scaled back, and standardized by the clean training images.
    The random generator of an image depends on the seed of the condition and the index of the image in its data set.

    Raises:
        DataError: The data are not images, or the corruption is unknown.
    """
    return {split: _make_corrupted_split(data, split, source, condition) for split, source in data.unprepared.items()}


def check_conditions_on_examples(data: PreparedData, conditions: Iterable[ConditionSpec]) -> None:
    """Check all images that will be corrupted, and corrupt one image of each split under each condition.

    Raises:
        DataError: The data are not images, or a corruption cannot be applied.
    """
    sources = tuple(data.unprepared.values())
    for condition in conditions:
        if data.vocabulary is not None:
            raise DataError("the data are token ids: only images can be corrupted")
        for source in sources:
            images = _scale_images_to_unit_range(source, data.scale)
            validated_images(images)
            corrupt_images(images[:1], condition.image_corruption, seed=condition.seed)


def _make_corrupted_split(
    data: PreparedData, split: Split, source: UnstandardizedInputs, condition: ConditionSpec
) -> tuple[Tensor, Tensor]:
    clean_inputs, targets = data.splits[split]
    if data.standardizer is None:
        raise DataError("the data are token ids: only images can be corrupted")
    images = _scale_images_to_unit_range(source, data.scale)
    corrupted = corrupt_images(images, condition.image_corruption, seed=condition.seed, indices=source.indices)
    inputs = data.standardizer(corrupted * np.float32(data.scale))
    return torch.from_numpy(inputs).to(clean_inputs.device), targets


def _scale_images_to_unit_range(source: UnstandardizedInputs, scale: float) -> NDArray[np.float32]:
    """The images with values from 0 to 1."""
    return source.inputs.astype(np.float32) / np.float32(scale)
