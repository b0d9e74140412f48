"""Residual networks in the form for CIFAR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError

Norm = Callable[[int], nn.Module]


class ResidualBlock(nn.Module):
    """ReLU(norm(conv 3×3(ReLU(norm(conv 3×3(x))))) + shortcut(x)), no biases before a norm.

    The shortcut has no weights (option A): it takes every second pixel where the block halves the image, and pads new
    channels with zeros.

    Args:
        inputs: number of input channels.
        outputs: number of output channels.
        stride: 2 where the block halves the image, else 1.
        norm: makes a normalization layer for a number of features.

    Input (N, inputs, H, W); output (N, outputs, H / stride, W / stride).
    """

    stackable: ClassVar[bool] = True

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.stride, self.new_channels = stride, outputs - inputs
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.first_norm = norm(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        residual = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        return F.relu(residual + self.shortcut_output(x))

    def shortcut_output(self, x: Tensor) -> Tensor:
        """Return the input in the shape of the output."""
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, 0, self.new_channels)) if self.new_channels else x


class ResNet(nn.Module):
    """conv 3×3, three stages of `blocks` blocks of two convolutions, average over positions, dense to the classes.

    A normalization layer stands between each convolution and its ReLU. The second and the third stage halve the image.
    There are 6·blocks + 2 layers: 3 blocks give ResNet-20, 9 give ResNet-56.

    Args:
        input_shape: (C, H, W), H and W at least 4.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        widths: number of channels of each stage.
        blocks: number of blocks of each stage.

    Input (N, C, H, W); output (N, classes), logits.
    Source: He, Zhang, Ren & Sun 2016, Deep Residual Learning, section 4.2.
    """

    rectified: ClassVar[bool] = True
    stackable: ClassVar[bool] = True

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Norm,
        widths: Sequence[int] = (16, 32, 64),
        *,
        blocks: int = 3,
    ) -> None:
        super().__init__()
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise ModelError(
                "a ResNet takes images (channels, height, width) of at least 4×4 pixels, not inputs of shape "
                f"{tuple(input_shape)}; use the model `mlp` for these"
            )
        if len(widths) != 3 or sorted(widths) != list(widths):
            raise ModelError(f"a ResNet has three stages, none narrower than the one before, not widths {list(widths)}")
        self.stem = nn.Conv2d(input_shape[0], widths[0], 3, padding=1, bias=False)
        self.stem_norm = norm(widths[0])
        stages, inputs = [], widths[0]
        for stage, outputs in enumerate(widths):
            for block in range(blocks):
                stages.append(ResidualBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1, norm))
                inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        x = self.stages(F.relu(self.stem_norm(self.stem(x))))
        logits: Tensor = self.classifier(torch.mean(x, (2, 3)))
        return logits
