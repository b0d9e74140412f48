"""Apply a corruption to images: checks, random generators, and slices of limited size."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bln_search.core.corruption import Corruption
from bln_search.core.errors import DataError
from bln_search.data.corruptions.function import CorruptionFunction, Generators, get_corruption_function

_SLICE_EXAMPLES = 512


def corrupt_images(
    images: ArrayLike, corruption: Corruption, *, seed: int = 0, indices: ArrayLike | None = None
) -> NDArray[np.float32]:
    """Return corrupted images. The result for an image depends on image, corruption, seed and example index only.

    Args:
        images: (N, C, H, W) with one or three channels, floating-point values from 0 to 1.
        corruption: Name and severity.
        seed: Of the random generators, at least 0.
        indices: (N,), index of each example in its data set; by default 0 to N-1. Give it for a part of a data set, so
            that an example has the same noise in every mini-batch.

    Returns:
        float32 of the same shape, values from 0 to 1.

    Raises:
        DataError: The images have another type, shape or range.
        ValueError: The seed or an index is not a whole number of at least 0.
    """
    checked = validated_images(images)
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed is a whole number of at least 0, not {seed!r}")
    examples = _parse_indices(indices, len(checked))
    function = get_corruption_function(corruption.name)
    corrupted = np.empty(checked.shape, np.float32)
    for start in range(0, len(checked), _SLICE_EXAMPLES):
        rows = slice(start, start + _SLICE_EXAMPLES)
        generators = iter_random_generators_per_example(corruption.name, int(seed), examples[rows])
        corrupted[rows] = _apply_checked_and_clipped(function, checked[rows].astype(np.float64), corruption, generators)
    return corrupted


def iter_random_generators_per_example(name: str, seed: int, indices: Sequence[int]) -> Generators:
    """Yield the random generator of each example: the same for every severity, different for every corruption."""
    key = zlib.crc32(name.encode())
    return (np.random.default_rng((seed, key, index)) for index in indices)


def validated_images(images: ArrayLike) -> NDArray[np.floating]:
    """Return the images as an array.

    Raises:
        DataError: They have another type, shape or range; the message says what to do.
    """
    array = np.asarray(images)
    shape = "×".join(map(str, array.shape)) or "a single number"
    if array.ndim != 4 or array.shape[1] not in (1, 3):
        raise DataError(
            f"images are {shape}: (examples, channels, height, width) with one or three channels is required"
        )
    if not array.size:
        raise DataError(f"images are {shape}: there is no pixel to corrupt")
    if array.dtype.kind != "f":
        raise DataError(
            f"images are {array.dtype}: floating-point values from 0 to 1 are required; divide bytes by 255"
        )
    if not np.isfinite(array).all():
        raise DataError("images contain NaN or infinity: remove these examples, or impute the values")
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        raise DataError(
            f"images have values from {low:.4g} to {high:.4g}: values from 0 to 1 are required; corrupt images before "
            "they are standardized"
        )
    return array


def _parse_indices(indices: ArrayLike | None, examples: int) -> list[int]:
    """Example indices as whole numbers. Raises ValueError for others."""
    if indices is None:
        return list(range(examples))
    array = np.asarray(indices)
    if array.dtype.kind not in "iu" or array.shape != (examples,) or array.min() < 0:
        raise ValueError(f"indices are {examples} whole numbers of at least 0, one for each image")
    return [int(index) for index in array]


def _apply_checked_and_clipped(
    function: CorruptionFunction, images: NDArray[np.float64], corruption: Corruption, generators: Generators
) -> NDArray[np.float32]:
    """Corrupted images, clipped to 0 to 1. Raises DataError if a plugin returns anything else than images."""
    corrupted = np.asarray(function(images, int(corruption.severity), generators))
    if corrupted.shape != images.shape or corrupted.dtype.kind != "f" or not np.isfinite(corrupted).all():
        raise DataError(
            f"the corruption {corruption.name} returned {corrupted.dtype} of shape {corrupted.shape}, or values that "
            f"are not finite: floating-point images of shape {images.shape} are required"
        )
    return np.clip(corrupted, 0.0, 1.0).astype(np.float32)
