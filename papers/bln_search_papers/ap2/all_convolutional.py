"""The all-convolutional network of the AP2 paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models import SlopedReLU

_SECOND_WIDTH = (False, False, False, True, True, True, True, True)
_KERNELS = (3, 3, 3, 3, 3, 3, 3, 1, 1)
_STRIDES = (1, 1, 2, 1, 1, 2, 1, 1, 1)


class AllConvolutionalNetwork(nn.Module):
    """Nine convolutions, each with a normalization layer and, but for the last, max(0, x) + 0.03·x; then the mean.

    3×3 w₁, 3×3 w₁, 3×3/2 w₁; 3×3 w₂, 3×3 w₂, 3×3/2 w₂; 3×3 w₂, 1×1 w₂, 1×1 classes; average over positions. No
    convolution has a bias. Zero padding preserves the size where the stride is 1.

    Args:
        input_shape: (C, H, W), H and W at least 4.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        widths: w₁ and w₂.

    Input (N, C, H, W); output (N, classes), logits.
    Source: Shekhovtsov & Flach 2018, section 5, the network for CIFAR-10; it does not say how logits follow from
    positions, their average is taken here.
    """

    rectified: ClassVar[bool] = True
    stackable: ClassVar[bool] = True

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Callable[[int], nn.Module],
        widths: Sequence[int] = (96, 192),
    ) -> None:
        super().__init__()
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise ModelError(
                "allconv takes images (channels, height, width) of at least 4×4 pixels, not inputs of shape "
                f"{tuple(input_shape)}; use the model `mlp` for these"
            )
        if len(widths) != 2:
            raise ModelError(
                f"allconv has two widths, those of its first and of its further layers, not {list(widths)}"
            )
        outputs = [*(widths[is_second] for is_second in _SECOND_WIDTH), classes]
        layers: list[nn.Module] = []
        inputs = input_shape[0]
        for width, kernel, stride in zip(outputs, _KERNELS, _STRIDES, strict=True):
            layers += [
                nn.Conv2d(inputs, width, kernel, stride=stride, padding=kernel // 2, bias=False),
                norm(width),
                SlopedReLU(),
            ]
            inputs = width
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        return torch.mean(self.layers(x), (2, 3))
