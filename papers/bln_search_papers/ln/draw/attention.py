"""Reading a patch of an image and writing one to it, through a grid of Gaussian filters.

Source: Gregor, Danihelka, Graves & Wierstra 2015, DRAW, section 3.3.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

NUM_PARAMETERS = 5
"""Number of outputs of a layer that place a grid: centre (2), variance, stride and intensity."""

_SMALLEST_SUM = 1e-8


class FilterBank(NamedTuple):
    """Filters of a square grid of Gaussians.

    Attributes:
        rows: (N, size, H), each of which sums to 1.
        columns: (N, size, W), each of which sums to 1.
        intensity: (N, 1, 1).
    """

    rows: Tensor
    columns: Tensor
    intensity: Tensor

    def read(self, images: Tensor) -> Tensor:
        """Return the patch of each image: (N, C, H, W) to (N, C·size²)."""
        rows, columns = self.rows.unsqueeze(1), self.columns.unsqueeze(1)
        patches = rows @ images @ columns.transpose(2, 3)
        return (self.intensity.unsqueeze(1) * patches).flatten(1)

    def write(self, patches: Tensor) -> Tensor:
        """Return images with each patch at its place: (N, C, size, size) to (N, C, H, W)."""
        rows, columns = self.rows.unsqueeze(1), self.columns.unsqueeze(1)
        return rows.transpose(2, 3) @ patches @ columns / self.intensity.unsqueeze(1)


def make_filter_bank(parameters: Tensor, height: int, width: int, size: int) -> FilterBank:
    """Return the filters of a grid of `size`·`size` Gaussians on images of height·width pixels.

    Args:
        parameters: (N, 5), outputs of a linear layer: centre in x and in y (-1 to 1 is the image), logarithms of the
            variance, of the stride and of the intensity.
        height: of the images.
        width: of the images.
        size: of the grid in both directions, at least 2.
    """
    centre_x, centre_y, log_variance, log_stride, log_intensity = parameters.unsqueeze(2).unbind(1)
    stride = (max(height, width) - 1) / (size - 1) * log_stride.exp()
    offsets = torch.arange(size, dtype=parameters.dtype, device=parameters.device) - (size - 1) / 2
    means_x = (width + 1) / 2 * (centre_x + 1) - 1 + offsets * stride
    means_y = (height + 1) / 2 * (centre_y + 1) - 1 + offsets * stride
    variance = log_variance.exp().unsqueeze(2)
    return FilterBank(
        _gaussian_filters(means_y, variance, height),
        _gaussian_filters(means_x, variance, width),
        log_intensity.exp().unsqueeze(2),
    )


def _gaussian_filters(means: Tensor, variance: Tensor, length: int) -> Tensor:
    """Return filters (N, size, length) with these means, in pixels counted from 0, that sum to 1."""
    positions = torch.arange(length, dtype=means.dtype, device=means.device)
    filters = torch.exp(-(positions - means.unsqueeze(2)).square() / (2 * variance))
    return filters / filters.sum(2, keepdim=True).clamp_min(_SMALLEST_SUM)


class PatchReader(nn.Module):
    """Reads a patch of the image and of the error image where the decoder's state places the grid.

    Args:
        units: of the decoder.
        size: of the grid in both directions.
    """

    def __init__(self, units: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.grid = nn.Linear(units, NUM_PARAMETERS)

    def forward(self, images: Tensor, errors: Tensor, decoded: Tensor) -> Tensor:
        """Return (N, 2·C·size²) from images and errors (N, C, H, W) and the state (N, units)."""
        bank = make_filter_bank(self.grid(decoded), images.shape[2], images.shape[3], self.size)
        return torch.cat([bank.read(images), bank.read(errors)], 1)


class PatchWriter(nn.Module):
    """Writes a patch to the canvas where the decoder's state places the grid.

    Args:
        units: of the decoder.
        size: of the grid in both directions.
        image_shape: (C, H, W).
    """

    def __init__(self, units: int, size: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.size, self.image_shape = size, image_shape
        self.grid = nn.Linear(units, NUM_PARAMETERS)
        self.patch = nn.Linear(units, image_shape[0] * size * size)

    def forward(self, decoded: Tensor) -> Tensor:
        """Return what is added to the canvas (N, C, H, W), from the state (N, units)."""
        channels, height, width = self.image_shape
        bank = make_filter_bank(self.grid(decoded), height, width, self.size)
        return bank.write(self.patch(decoded).unflatten(1, (channels, self.size, self.size)))


class WholeImageReader(nn.Module):
    """Reads the whole image and the whole error image."""

    def forward(self, images: Tensor, errors: Tensor, _decoded: Tensor) -> Tensor:
        """Return (N, 2·C·H·W) from images and errors (N, C, H, W)."""
        return torch.cat([images.flatten(1), errors.flatten(1)], 1)


class WholeImageWriter(nn.Module):
    """Writes to the whole canvas.

    Args:
        units: of the decoder.
        image_shape: (C, H, W).
    """

    def __init__(self, units: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.image_shape = image_shape
        channels, height, width = image_shape
        self.linear = nn.Linear(units, channels * height * width)

    def forward(self, decoded: Tensor) -> Tensor:
        """Return what is added to the canvas (N, C, H, W), from the state (N, units)."""
        written: Tensor = self.linear(decoded).unflatten(1, self.image_shape)
        return written
