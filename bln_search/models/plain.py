"""Deep convolutional networks without shortcuts: VGG-16 and NIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError

Norm = Callable[[int], nn.Module]
_VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_DENSE = 512
_HALVINGS = 5


class VGG16(nn.Module):
    """Thirteen convolutions 3×3 in five groups, max pooling 2 behind each group; dense 512, 512, classes.

    A normalization layer behind each convolution and each hidden dense layer, before its ReLU.

    Input (N, C, H, W), H and W at least 32; output (N, classes), logits.
    Source: Simonyan & Zisserman 2015, configuration D, its dense layers sized for images of 32×32.
    """

    rectified: ClassVar[bool] = True

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Norm) -> None:
        super().__init__()
        smallest = 2**_HALVINGS
        _check_images("vgg16", input_shape, smallest)
        layers: list[nn.Module] = []
        inputs = input_shape[0]
        for group in _VGG16:
            for outputs in group:
                layers += _rectified(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), norm(outputs))
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        left = inputs * (input_shape[1] // smallest) * (input_shape[2] // smallest)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            *_rectified(nn.Linear(left, _DENSE, bias=False), norm(_DENSE)),
            *_rectified(nn.Linear(_DENSE, _DENSE, bias=False), norm(_DENSE)),
            nn.Linear(_DENSE, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, classes)."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


class NIN(nn.Module):
    """Network in network: three groups of one wide and two 1×1 convolutions, pooling and dropout 0.5 between them.

    192@5×5, 160@1×1, 96@1×1, max pool 3/2; 192@5×5, 192@1×1, 192@1×1, average pool 3/2; 192@3×3, 192@1×1, classes@1×1,
    average over positions. A normalization layer behind each convolution but the last, before its ReLU.

    Input (N, C, H, W), H and W at least 8; output (N, classes), logits.
    Source: Lin, Chen & Yan 2014, Network In Network, section 4.1 (sizes from its published CIFAR-10 definition).
    """

    rectified: ClassVar[bool] = True

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Norm) -> None:
        super().__init__()
        _check_images("nin", input_shape, 8)
        layers: list[nn.Module] = []
        inputs = input_shape[0]
        groups = (((192, 5), (160, 1), (96, 1)), ((192, 5), (192, 1), (192, 1)), ((192, 3), (192, 1)))
        between: list[list[nn.Module]] = [
            [nn.MaxPool2d(3, stride=2, padding=1), nn.Dropout(0.5)],
            [nn.AvgPool2d(3, stride=2, padding=1), nn.Dropout(0.5)],
            [],
        ]
        for group, following in zip(groups, between, strict=True):
            for outputs, kernel in group:
                convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
                layers += _rectified(convolution, norm(outputs))
                inputs = outputs
            layers += following
        self.features = nn.Sequential(*layers, nn.Conv2d(inputs, classes, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, classes)."""
        return torch.mean(self.features(x), (2, 3))


def _rectified(layer: nn.Module, norm: nn.Module) -> list[nn.Module]:
    return [layer, norm, nn.ReLU()]


def _check_images(name: str, input_shape: tuple[int, ...], smallest: int) -> None:
    if len(input_shape) != 3 or min(input_shape[1:]) < smallest:
        raise ModelError(
            f"{name} takes images (channels, height, width) of at least {smallest}×{smallest} pixels, "
            f"not inputs of shape {tuple(input_shape)}; use the model `mlp` for these"
        )
