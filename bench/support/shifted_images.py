"""CIFAR-10 under corruptions: training images, populations and validation images, standardized alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.data import DataSet, load_data_set
from bln_search.settings import load_settings

CLEAN = "clean"
SHIFTS = ("gaussian_noise-5", "contrast-4")
"""Corruptions: noise of standard deviation 0.1, and contrast reduced to 0.3."""

POPULATION_BATCH = 50


@dataclass(frozen=True)
class Sizes:
    """Numbers of images.

    Attributes:
        training: That the network is trained on.
        population: For the statistics of a population: source images are among the training images, target images
            are not.
        validation: For the losses, of each condition.
    """

    training: int
    population: int
    validation: int


@dataclass(frozen=True)
class ShiftedImages:
    """Images of one seed, with values from 0 to 1.

    Attributes:
        sizes: Numbers of images.
        images: (training + population + validation, 3, 32, 32), in that order.
        labels: Classes.
        indices: Index of each image in the training split of the data set.
        device: Device of the tensors that are handed out.
    """

    sizes: Sizes
    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    device: str = "cpu"

    def training(self) -> tuple[Tensor, Tensor]:
        """Standardized training images and their classes."""
        return self._standardized(CLEAN, slice(0, self.sizes.training))

    def population(self, condition: str = CLEAN) -> DataLoader[tuple[Tensor, ...]]:
        """Clean training images, the population of the source; or further images under another condition."""
        first = 0 if condition == CLEAN else self.sizes.training
        return self._loader(condition, slice(first, first + self.sizes.population))

    def validation(self, condition: str) -> DataLoader[tuple[Tensor, ...]]:
        """Validation images under a condition."""
        return self._loader(condition, slice(self.sizes.training + self.sizes.population, None))

    def _loader(self, condition: str, rows: slice) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(TensorDataset(*self._standardized(condition, rows)), POPULATION_BATCH)

    def _standardized(self, condition: str, rows: slice) -> tuple[Tensor, Tensor]:
        """Images under a condition, standardized by mean and deviation of the clean training images, and classes."""
        training = self.images[: self.sizes.training].astype(np.float64)
        mean, deviation = (moment(axis=(0, 2, 3), keepdims=True) for moment in (training.mean, training.std))
        images = self.images[rows]
        if condition != CLEAN:
            images = bln_search.corrupt(images, condition, indices=self.indices[rows])
        inputs = torch.from_numpy(((images - mean) / deviation).astype(np.float32))
        return inputs.to(self.device), torch.from_numpy(self.labels[rows].copy()).to(self.device)


def load_cifar10(folder: Path | None) -> DataSet:
    """Return CIFAR-10 from a folder; by default that of the settings."""
    settings = load_settings()
    return load_data_set("cifar10", folder or settings.data_folder, settings.cache)


def draw_images(data: DataSet, sizes: Sizes, seed: int, device: str = "cpu") -> ShiftedImages:
    """Return disjoint random images of the training split: for training, target populations and validation."""
    count = sizes.training + sizes.population + sizes.validation
    indices = np.random.default_rng(seed).permutation(len(data.train_inputs))[:count]
    images = (data.train_inputs[indices] / data.scale).astype(np.float32)
    return ShiftedImages(sizes, images, data.train_class_indices[indices], indices, device)
