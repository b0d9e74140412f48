"""Images of CIFAR-10 for streams: the fifteen corruptions of the test images, and data for selections."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bench.support.adaptation.held_out import HELD_OUT
from bench.support.adaptation.networks import Split

CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg"),
)
SEVERITY, LOADER_BATCH = 5, 64
CLEAN = "clean"

Loader = DataLoader[tuple[torch.Tensor, ...]]


def read_all(loader: Loader) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs (n, ...) and classes (n,) of a loader."""
    inputs, labels = zip(*loader, strict=True)
    return torch.cat(inputs), torch.cat(labels)


class StreamImages:
    """Loaders of images under conditions.

    Args:
        split: The images.
    """

    def __init__(self, split: Split) -> None:
        self._split = split

    def training(self, images: int) -> Loader:
        """Clean training images, for populations."""
        return self._make_loader(self._split.training[:images], CLEAN)

    def source(self, images: int) -> Loader:
        """Clean validation images."""
        return self._make_loader(self._split.validation[:images], CLEAN)

    def held_out(self, images: int) -> dict[str, Loader]:
        """Validation images under the corruptions that no stream contains."""
        return {name: self._make_loader(self._split.validation[:images], name) for name in HELD_OUT}

    def conditions(self, images: int, names: Iterable[str] = CORRUPTIONS) -> dict[str, Loader]:
        """Random test images, the same ones under each condition."""
        chosen = np.sort(np.random.default_rng(1).permutation(len(self._split.data.test_inputs))[:images])
        return {name: self._make_loader(chosen, name, is_test=True) for name in names}

    def _make_loader(self, indices: NDArray[np.int64], condition: str, *, is_test: bool = False) -> Loader:
        data = self._split.data
        inputs = data.test_inputs if is_test else data.train_inputs
        labels = data.test_class_indices if is_test else data.train_class_indices
        images = inputs[indices].astype(np.float64) / data.scale
        if condition in HELD_OUT:
            images = HELD_OUT[condition](images, SEVERITY, np.random.default_rng(0))
        elif condition != CLEAN:
            corrupted = bln_search.corrupt(images.astype(np.float32), f"{condition}-{SEVERITY}", indices=indices)
            images = corrupted.astype(np.float64)
        return DataLoader(
            TensorDataset(self._split.standardize(images), torch.from_numpy(labels[indices].copy())), LOADER_BATCH
        )
