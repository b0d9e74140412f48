"""Corrupt images for an evaluation under distribution shift."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from bln_search.core.corruption import parse_corruption
from bln_search.data.corruptions import corrupt_images


@overload
def corrupt(
    images: Tensor, name: str, *, severity: int | None = None, seed: int = 0, indices: ArrayLike | None = None
) -> Tensor: ...


@overload
def corrupt(
    images: NDArray[np.floating[Any]],
    name: str,
    *,
    severity: int | None = None,
    seed: int = 0,
    indices: ArrayLike | None = None,
) -> NDArray[np.float32]: ...


def corrupt(
    images: Tensor | NDArray[np.floating[Any]],
    name: str,
    *,
    severity: int | None = None,
    seed: int = 0,
    indices: ArrayLike | None = None,
) -> Tensor | NDArray[np.float32]:
    """Return images with a corruption that keeps their labels, in the style of CIFAR-10-C.

    The result for an image depends on the image, `name`, `severity`, `seed` and its example index only, so that an
    example has the same noise in every mini-batch. Images of any size are possible.

    Source: Hendrycks & Dietterich 2019, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations.

    Args:
        images: (N, C, H, W) with one or three channels and values from 0 to 1, before standardization. A tensor or an
            array.
        name: `gaussian_noise`, `shot_noise`, `impulse_noise`, `defocus_blur`, `glass_blur`, `motion_blur`,
            `zoom_blur`, `snow`, `frost`, `fog`, `brightness`, `contrast`, `elastic_transform`, `pixelate`, `jpeg`, or
            a corruption of a plugin. With a severity, as in `contrast-3`, or without.
        severity: From 1 to 5; by default that of `name`, or 3.
        seed: Of random corruptions.
        indices: (N,), index of each example in its data set, for images that are a part of it; by default 0 to N-1.

    Returns:
        float32 of the shape of `images`, values from 0 to 1: an array for an array, a tensor on the same device for a
        tensor.

    Raises:
        DataError: There is no such corruption or severity, or the images have another type, shape or range.
        ValueError: `seed` or `indices` is invalid.

    Example:
        noisy = bln_search.corrupt(images, "gaussian_noise", severity=3)
        flat = bln_search.corrupt(images, "contrast-5")
    """
    corruption = parse_corruption(name, severity)
    if not isinstance(images, Tensor):
        return corrupt_images(images, corruption, seed=seed, indices=indices)
    values = images.detach().cpu()
    array = (values.float() if values.dtype is torch.bfloat16 else values).numpy()
    return torch.from_numpy(corrupt_images(array, corruption, seed=seed, indices=indices)).to(images.device)
