"""Random crops, flips and noise. Random numbers come from the host; images are cropped on their device."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.data.input_shape import InputShape, require_single_tensor_for_purpose
from bln_search.data.inputs import copy_to_device
from bln_search.data.lazy_images import Examples, LazyImages
from bln_search.specs.sections.training import AugmentationSpec


class Augmentation:
    """Random crops of images padded with zeros (the mean of standardized images), random horizontal flips, noise.

    Every image gets its own random crop and flip, and every value its own noise; they do not depend on the device.

    Args:
        spec: padding of the crop, whether images are flipped, variance of the noise.
        input_shape: (C, H, W), of one image.
        generator: of the random numbers, on the CPU.

    Raises:
        ModelError: the inputs are not images.
    """

    def __init__(self, spec: AugmentationSpec, input_shape: InputShape, generator: torch.Generator) -> None:
        if not isinstance(input_shape, tuple) or len(input_shape) != 3:
            given = (
                f"shape {input_shape}" if isinstance(input_shape, tuple) else f"several parts, {', '.join(input_shape)}"
            )
            raise ModelError(
                f"training.augmentation needs images (channels, height, width), but the data has inputs of {given}: "
                "remove training.augmentation"
            )
        self.spec, self.generator = spec, generator
        self.height, self.width = input_shape[1:]

    def read_augmented_images(self, inputs: Examples, index: slice | Tensor) -> Tensor:
        """Return augmented images of a split, (k, C, H, W).

        Raises:
            ModelError: random parts are resized while images are decoded, and these already are.
        """
        if not self.spec.resized_crop:
            return self(require_single_tensor_for_purpose(inputs[index], "augmentation"))
        if isinstance(inputs, LazyImages):
            return inputs.read_random_crops(index, self.generator, flip=self.spec.flip)
        raise ModelError("training.augmentation.resized_crop is for image files such as imagenet: use crop")

    def __call__(self, x: Tensor) -> Tensor:
        """Return randomly cropped, flipped and noisy images of the shape of `x`, (N, C, H, W)."""
        n, padding = len(x), self.spec.crop
        tops = torch.randint(0, 2 * padding + 1, (n, 1), generator=self.generator)
        lefts = torch.randint(0, 2 * padding + 1, (n, 1), generator=self.generator)
        rows = tops + torch.arange(self.height)
        columns = torch.arange(self.width).expand(n, -1)
        if self.spec.flip:
            is_flipped = torch.rand((n, 1), generator=self.generator) < 0.5
            columns = torch.where(is_flipped, self.width - 1 - columns, columns)
        columns = columns + lefts
        index = (rows.unsqueeze(2) * (self.width + 2 * padding) + columns.unsqueeze(1)).view(n, 1, -1)
        index = copy_to_device(index, x.device)
        padded = F.pad(x, (padding, padding, padding, padding)) if padding else x
        cropped = padded.flatten(2).gather(2, index.expand(-1, x.shape[1], -1))
        return self._add_noise(cropped.view_as(x))

    def _add_noise(self, x: Tensor) -> Tensor:
        if not self.spec.noise:
            return x
        noise = torch.randn(x.shape, generator=self.generator, dtype=torch.float32)
        return x + sqrt(self.spec.noise) * copy_to_device(noise.to(x.dtype), x.device)
