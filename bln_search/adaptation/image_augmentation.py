"""Random changes of images, which the student of RoTTA and the teacher of CoTTA see."""

from __future__ import annotations

import math
from typing import TypeGuard

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.data.inputs import Inputs

_NOISE = 0.005
_BLUR_RADIUS = 2


def are_images(inputs: Inputs) -> TypeGuard[Tensor]:
    """Return whether inputs are images (n, C, H, W), which can be augmented."""
    return isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.is_floating_point()


def augment_images(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images with random colors, position, sharpness, side and noise, each with its own random numbers.

    Uniform over these ranges, in this order: brightness 0.6-1.4, contrast 0.7-1.3, saturation 0.5-1.5, gamma 0.7-1.3;
    rotation by up to 15°, shift by up to a sixteenth of height and width, scale 0.9-1.1; Gaussian blur with a deviation
    of 0.001-0.5 pixels; a horizontal flip with probability 1/2; noise with a deviation of 0.005. Values outside of the
    range are clipped.

    These are the ranges of Wang et al. 2022 (CoTTA), which RoTTA has too, but for their change of hue. There all images
    of a mini-batch share the random numbers, and the range of values is 0 to 1. Here it is that of each channel over
    the mini-batch, as inputs are standardized.

    Args:
        images: (n, C, H, W), with at least two values.
        generator: On the CPU.
    """

    def draw(low: float, high: float) -> Tensor:
        values = low + (high - low) * torch.rand(len(images), generator=generator, dtype=torch.float64)
        return values.to(images)

    low, high = images.amin((0, 2, 3), keepdim=True), images.amax((0, 2, 3), keepdim=True)
    extent = (high - low).clamp_min(torch.finfo(images.dtype).tiny)
    unit = (images - low) / extent
    unit = change_colors(unit, draw(0.6, 1.4), draw(0.7, 1.3), draw(0.5, 1.5), draw(0.7, 1.3))
    shift = torch.stack([draw(-1 / 16, 1 / 16), draw(-1 / 16, 1 / 16)], 1)
    unit = move_images(unit, draw(-math.pi / 12, math.pi / 12), shift, draw(0.9, 1.1))
    unit = blur_images(unit, draw(0.001, 0.5))
    unit = torch.where(_view_per_image(draw(0, 1) < 0.5), unit.flip(3), unit)
    noise = torch.randn(unit.shape, generator=generator, dtype=torch.float64).to(unit)
    return (unit + _NOISE * noise).clamp(0, 1) * (high - low) + low


def change_colors(images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, gamma: Tensor) -> Tensor:
    """Return images (n, C, H, W) with values 0 to 1: b·x, then towards the mean, then towards gray, then x^γ.

    Args:
        images: (n, C, H, W), values 0 to 1.
        brightness: b (n,).
        contrast: c (n,): c·x + (1 − c)·mean of the image.
        saturation: s (n,): s·x + (1 − s)·mean of the channels.
        gamma: γ (n,).
    """
    b, c, s, g = map(_view_per_image, (brightness, contrast, saturation, gamma))
    images = (b * images).clamp(0, 1)
    images = (c * images + (1 - c) * images.mean((1, 2, 3), keepdim=True)).clamp(0, 1)
    images = (s * images + (1 - s) * images.mean(1, keepdim=True)).clamp(0, 1)
    return images**g


def move_images(images: Tensor, angle: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Return images (n, C, H, W) that are turned, shifted and scaled; interpolated linearly, edges continued.

    The value at position p relative to the center, in units of half the height and width, is that at
    R(angle)·p/scale + 2·shift.

    Args:
        images: (n, C, H, W).
        angle: Radians (n,).
        shift: Fractions of width and height (n, 2).
        scale: (n,).
    """
    cosine, sine = angle.cos() / scale, angle.sin() / scale
    rows = torch.stack([cosine, -sine, 2 * shift[:, 0], sine, cosine, 2 * shift[:, 1]], 1).view(-1, 2, 3)
    grid = F.affine_grid(rows, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def blur_images(images: Tensor, deviation: Tensor) -> Tensor:
    """Return images (n, C, H, W) under a Gaussian filter of five by five pixels, edges continued.

    Args:
        images: (n, C, H, W).
        deviation: In pixels (n,).
    """
    positions = torch.arange(-_BLUR_RADIUS, _BLUR_RADIUS + 1).to(images)
    weights = torch.exp(-((positions / deviation[:, None]) ** 2) / 2)
    weights = weights / weights.sum(1, keepdim=True)
    padded = F.pad(images, [_BLUR_RADIUS] * 4, mode="replicate")
    height, width = images.shape[2:]
    rows = [_view_per_image(weights[:, i]) * padded[:, :, i : i + height] for i in range(len(positions))]
    filtered = torch.stack(rows).sum(0)
    columns = [_view_per_image(weights[:, i]) * filtered[..., i : i + width] for i in range(len(positions))]
    return torch.stack(columns).sum(0)


def _view_per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
