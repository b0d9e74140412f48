"""Residual networks in the form for ImageNet: ResNet-18, ResNet-34 and ResNet-50."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models.residual import Norm, ResidualBlock

_STEM_CHANNELS = 64
_STAGE_CHANNELS = (64, 128, 256, 512)
_REDUCTION = 32
"""Factor by which the stem and the stages reduce height and width."""

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


class ProjectionShortcut(nn.Module):
    """norm(conv 1×1(x)): the shortcut of a block whose output has another shape than its input (option B).

    Args:
        inputs: number of input channels.
        outputs: number of output channels.
        stride: 2 where the block halves the image, else 1.
        norm: makes a normalization layer for a number of features.

    Input (N, inputs, H, W); output (N, outputs, H / stride, W / stride).
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
        self.norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the projected input."""
        projected: Tensor = self.norm(self.convolution(x))
        return projected


class BasicBlock(ResidualBlock):
    """A block of two convolutions whose shortcut is the input, or its projection where the shapes differ.

    Args:
        inputs: number of input channels.
        channels: number of channels of the stage, which are those of the output.
        stride: 2 where the block halves the image, else 1.
        norm: makes a normalization layer for a number of features.

    Input (N, inputs, H, W); output (N, channels, H / stride, W / stride).
    """

    expansion: ClassVar[int] = 1

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__(inputs, channels, stride, norm)
        self.shortcut = _make_shortcut(inputs, channels, stride, norm)

    def shortcut_output(self, x: Tensor) -> Tensor:
        """Return the input or its projection."""
        output: Tensor = self.shortcut(x)
        return output


class BottleneckBlock(nn.Module):
    """conv 1×1, conv 3×3, conv 1×1 to four times the channels, each with a norm; plus the shortcut, then ReLU.

    A ReLU stands behind the first two norms. The convolution 3×3 has the stride, as in torchvision; in He et al. it is
    the first one.

    Args:
        inputs: number of input channels.
        channels: number of channels of the stage, a quarter of those of the output.
        stride: 2 where the block halves the image, else 1.
        norm: makes a normalization layer for a number of features.

    Input (N, inputs, H, W); output (N, 4·channels, H / stride, W / stride).
    """

    expansion: ClassVar[int] = 4

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        outputs = self.expansion * channels
        self.first = nn.Conv2d(inputs, channels, 1, bias=False)
        self.first_norm = norm(channels)
        self.second = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.second_norm = norm(channels)
        self.third = nn.Conv2d(channels, outputs, 1, bias=False)
        self.third_norm = norm(outputs)
        self.shortcut = _make_shortcut(inputs, outputs, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        hidden = F.relu(self.second_norm(self.second(F.relu(self.first_norm(self.first(x))))))
        return F.relu(self.third_norm(self.third(hidden)) + self.shortcut(x))


class ImageNetResNet(nn.Module):
    """conv 64@7×7/2, norm, ReLU, max pool 3/2; four stages of blocks; average over positions; dense to the classes.

    The stages have 64, 128, 256 and 512 channels (ResNet-50: four times as many at their output). The second, third and
    fourth stage halve the image. With BN and 1,000 classes the networks have 11,689,512 (ResNet-18), 21,797,672
    (ResNet-34) and 25,557,032 (ResNet-50) parameters.

    Args:
        input_shape: (C, H, W), H and W at least 32.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        depth: 18 and 34 have basic blocks, 50 has bottleneck blocks.

    Input (N, C, H, W); output (N, classes), logits.
    Source: He, Zhang, Ren & Sun 2016, Deep Residual Learning, Table 1.
    """

    rectified: ClassVar[bool] = True

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Norm, *, depth: int) -> None:
        super().__init__()
        if len(input_shape) != 3 or min(input_shape[1:]) < _REDUCTION:
            raise ModelError(
                f"resnet{depth} takes images (channels, height, width) of at least {_REDUCTION}×{_REDUCTION} pixels, "
                f"not inputs of shape {tuple(input_shape)}; resnet20 takes smaller images"
            )
        block: type[BasicBlock | BottleneckBlock] = BottleneckBlock if depth == 50 else BasicBlock
        self.stem = nn.Conv2d(input_shape[0], _STEM_CHANNELS, 7, stride=2, padding=3, bias=False)
        self.stem_norm = norm(_STEM_CHANNELS)
        self.stem_pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks: list[nn.Module] = []
        inputs = _STEM_CHANNELS
        for stage, (channels, count) in enumerate(zip(_STAGE_CHANNELS, _BLOCKS[depth], strict=True)):
            for position in range(count):
                blocks.append(block(inputs, channels, 2 if stage > 0 and position == 0 else 1, norm))
                inputs = channels * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        x = self.blocks(self.stem_pool(F.relu(self.stem_norm(self.stem(x)))))
        logits: Tensor = self.classifier(torch.mean(x, (2, 3)))
        return logits


def _make_shortcut(inputs: int, outputs: int, stride: int, norm: Norm) -> nn.Module:
    return nn.Identity() if (inputs, stride) == (outputs, 1) else ProjectionShortcut(inputs, outputs, stride, norm)
