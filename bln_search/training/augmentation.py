"""Crops and flips, drawn on the host and cut on the device of the images."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.specs.training import AugmentationSpec


class Augmentation:
    """Random crops out of an image with a border of zeros, and horizontal flips.

    Zeros are the mean of standardized images. One draw an image, from `generator`, whatever the device.
    """

    def __init__(self, spec: AugmentationSpec, input_shape: tuple[int, ...], generator: torch.Generator) -> None:
        if len(input_shape) != 3:
            raise ModelError(
                f"training.augmentation changes images (channels, height, width), the data has inputs of shape "
                f"{tuple(input_shape)}: remove it"
            )
        self.spec, self.generator = spec, generator
        self.height, self.width = input_shape[1:]

    def __call__(self, x: Tensor) -> Tensor:
        """Images (N, C, H, W) of the same shape."""
        n, border = len(x), self.spec.crop
        tops = torch.randint(0, 2 * border + 1, (n, 1), generator=self.generator)
        lefts = torch.randint(0, 2 * border + 1, (n, 1), generator=self.generator)
        rows = tops + torch.arange(self.height)
        columns = torch.arange(self.width).expand(n, -1)
        if self.spec.flip:
            flipped = torch.rand((n, 1), generator=self.generator) < 0.5
            columns = torch.where(flipped, self.width - 1 - columns, columns)
        columns = columns + lefts
        index = (rows.unsqueeze(2) * (self.width + 2 * border) + columns.unsqueeze(1)).view(n, 1, -1).to(x.device)
        padded = F.pad(x, (border, border, border, border)) if border else x
        cut = padded.flatten(2).gather(2, index.expand(-1, x.shape[1], -1))
        return cut.view_as(x)
