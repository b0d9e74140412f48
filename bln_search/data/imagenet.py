"""Images in the folders of ImageNet: `train/WNID/*` and `val/WNID/*`, one folder for each class.

The images of `val` are the test split, those of `train` the training and validation split. They are decoded one
mini-batch at a time. Source: Russakovsky et al. 2015. Any images in such folders can be used, with any number of
classes.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bln_search.core.enums import Split
from bln_search.core.errors import DataError, DataUnavailableOnMachineError
from bln_search.core.tasks import TaskName
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet
from bln_search.data.lazy_images import SIZE, LazyImages
from bln_search.data.prepared import PreparedData
from bln_search.data.splits import describe_classes_missing_in_training, split_training_and_validation_indices
from bln_search.specs.sections.data import DataSpec, Standardization

_log = logging.getLogger(__name__)
NAME = "imagenet"
_SPLITS = ("train", "val")
_SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
_MAX_KINDS = 5
_NEUTRAL = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
_CHANNELS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and deviation of the channels of ImageNet's training images, as torchvision's networks use them."""


@dataclass(frozen=True)
class ImageFolders:
    """The folders `train` and `val`.

    Attributes:
        root: The folder that holds them.
    """

    root: Path

    @property
    def paths(self) -> tuple[Path, ...]:
        """The two folders."""
        return tuple(self.root / split for split in _SPLITS)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the folders of the classes, in alphabetical order."""
        return tuple(sorted(path.name for path in (self.root / "train").iterdir() if path.is_dir()))

    def list_images_and_labels(self, split: str) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
        """Paths (n,) of the images of `train` or `val`, relative to the root, and their classes (n,).

        Raises:
            DataError: the folder has other classes than `train`, or a class has no image.
        """
        folders = sorted(path.name for path in (self.root / split).iterdir() if path.is_dir())
        if tuple(folders) != self.classes or not folders:
            different = sorted({*folders} ^ {*self.classes})
            name = f"; only one of them has {different[0]}" if different else ""
            raise DataError(
                f"{self.root / split} has {len(folders)} folders of classes, {self.root / 'train'} has "
                f"{len(self.classes)}{name}: both need a folder for each class, such as train/n01440764 and "
                "val/n01440764"
            )
        paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(folders):
            files = sorted(path for path in (self.root / split / name).iterdir() if _is_image(path))
            if not files:
                raise DataError(f"{self.root / split / name} has no image ({', '.join(sorted(_SUFFIXES))})")
            paths += [f"{split}/{name}/{path.name}" for path in files]
            labels += [label] * len(files)
        return np.array(paths), np.array(labels, np.int64)

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each folder of a class with files or folders that are not read as images."""
        sentences = []
        for folder in (self.root / split / name for split in _SPLITS for name in self.classes):
            names = [path.suffix.lower() or path.name for path in folder.iterdir() if not _is_image(path)]
            if names:
                kinds = ", ".join(sorted(set(names))[:_MAX_KINDS])
                sentences.append(f"{len(names):,} files of {folder} are left out: {kinds}")
        return tuple(sentences)

    @cached_property
    def sha256_of_names_and_sizes(self) -> str:
        """SHA-256 of the names and sizes of all files; their content is not read."""
        digest = hashlib.sha256()
        for split in _SPLITS:
            for path in self.list_images_and_labels(split)[0]:
                digest.update(f"{path} {(self.root / path).stat().st_size}\n".encode())
        return digest.hexdigest()

    @property
    def version(self) -> str:
        """Version of the content. It changes when a file is added, removed or changes its size."""
        return self.sha256_of_names_and_sizes[:12]

    def verify(self) -> tuple[str, ...]:
        """A sentence for each folder; there are no published checksums of single images.

        Raises:
            DataError: the folders of the classes differ, or a class has no image.
        """
        found = tuple(
            f"{self.root / split}: {len(self.list_images_and_labels(split)[0]):,} images of "
            f"{len(self.classes):,} classes, not compared with published checksums"
            for split in _SPLITS
        )
        return (*found, *self.left_out)

    def decode(self) -> DataSet:
        """Raise DataError: the images are decoded one mini-batch at a time."""
        raise DataError(f"{NAME} is decoded one mini-batch at a time, which this cannot use")


def _is_image(path: Path) -> bool:
    """Return whether a file is read; hidden files are copies of other programs."""
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".") and path.is_file()


def get_image_folders(folders: Sequence[Path]) -> ImageFolders:
    """Return the first of `folders` that holds `train` and `val`.

    Raises:
        DataUnavailableOnMachineError: none does.
    """
    for folder in folders:
        if all((folder / split).is_dir() for split in _SPLITS):
            return ImageFolders(folder)
    searched = ", ".join(map(str, folders))
    raise DataUnavailableOnMachineError(
        f"the folders train and val, with a folder for each class, are not in {searched}: name the folder that holds "
        "them with --data or BLN_SEARCH_DATA (of `run`, or of the worker)"
    )


def prepare_image_folders(images: ImageFolders, spec: DataSpec, device: torch.device | str = "cpu") -> PreparedData:
    """Split the images by `spec`; they are decoded when they are read.

    Raises:
        DataError: the folders differ, or the standardization needs all images in memory.
    """
    if spec.standardization is Standardization.PIXEL:
        raise DataError(f"{NAME}: the standardization `pixel` needs all images in memory: use `channel` or `none`")
    mean, deviation = _CHANNELS if spec.standardization is Standardization.CHANNEL else _NEUTRAL
    train_paths, train_labels = images.list_images_and_labels("train")
    test_paths, test_labels = images.list_images_and_labels("val")
    for sentence in images.left_out:
        _log.warning("%s", sentence)
    training, validation = split_training_and_validation_indices(train_labels, spec)

    labels = {Split.TRAIN: train_labels[training], Split.VALIDATION: train_labels[validation], Split.TEST: test_labels}
    missing = describe_classes_missing_in_training(labels, TaskName.CLASSIFICATION, images.classes)

    def examples(paths: NDArray[np.str_], labels: NDArray[np.int64]) -> tuple[LazyImages, torch.Tensor]:
        lazy = LazyImages(images.root, paths, mean, deviation, torch.device(device))
        return lazy, torch.from_numpy(labels.copy()).to(device)

    return PreparedData(
        {
            Split.TRAIN: examples(train_paths[training], train_labels[training]),
            Split.VALIDATION: examples(train_paths[validation], train_labels[validation]),
            Split.TEST: examples(test_paths, test_labels),
        },
        (3, SIZE, SIZE),
        len(images.classes),
        images.sha256_of_names_and_sizes,
        remarks=(*images.left_out, *missing),
    )


def find_and_prepare_image_folders(folders: Sequence[Path], spec: DataSpec, device: torch.device | str) -> PreparedData:
    """Find the images in one of `folders`, and split them by `spec`; they are decoded when they are read."""
    return prepare_image_folders(get_image_folders(folders), spec, device)


ENTRY = CatalogEntry(
    NAME,
    "images in the folders train/WNID and val/WNID, 224×224 (Russakovsky et al. 2015)",
    (),
    find=get_image_folders,
    prepare=find_and_prepare_image_folders,
    format=DataFormat((3, SIZE, SIZE), 1000),
)
