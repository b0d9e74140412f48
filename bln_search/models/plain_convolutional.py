"""Deep convolutional networks without shortcuts: VGG-16 and NIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError

Norm = Callable[[int], nn.Module]
_VGG16_CHANNELS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_DENSE_UNITS = 512
_POOLINGS = 5


class VGG16(nn.Module):
    """Thirteen convolutions 3×3 in five groups, max pooling 2 after each group; dense 512, 512, classes.

    A normalization layer stands between each convolution or hidden dense layer and its ReLU. Without `dense_norms` it
    stands behind convolutions only, as in the MBN paper (Guo et al. 2018), and the hidden dense layers have biases.

    Args:
        input_shape: (C, H, W), H and W at least 32.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        dense_norms: whether the two hidden dense layers have normalization layers.

    Input (N, C, H, W); output (N, classes), logits.
    Source: Simonyan & Zisserman 2015, configuration D, its dense layers sized for images of 32×32.
    """

    rectified: ClassVar[bool] = True
    stackable: ClassVar[bool] = True

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Norm, *, dense_norms: bool = True) -> None:
        super().__init__()
        reduction = 2**_POOLINGS
        _check_image_input("vgg16", input_shape, reduction)
        layers: list[nn.Module] = []
        inputs = input_shape[0]
        for group in _VGG16_CHANNELS:
            for outputs in group:
                layers += _make_relu_block(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), norm(outputs))
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        flat_size = inputs * (input_shape[1] // reduction) * (input_shape[2] // reduction)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            *_make_dense_block(flat_size, norm if dense_norms else None),
            *_make_dense_block(_DENSE_UNITS, norm if dense_norms else None),
            nn.Linear(_DENSE_UNITS, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


class NIN(nn.Module):
    """Network in network: three groups of one wide and two 1×1 convolutions, pooling and dropout 0.5 between them.

    192@5×5, 160@1×1, 96@1×1, max pool 3/2; 192@5×5, 192@1×1, 192@1×1, average pool 3/2; 192@3×3, 192@1×1, classes@1×1,
    average over positions. A normalization layer stands between each convolution except the last and its ReLU.

    Args:
        input_shape: (C, H, W), H and W at least 8.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.

    Input (N, C, H, W); output (N, classes), logits.
    Source: Lin, Chen & Yan 2014, Network In Network, section 4.1 (sizes from its published CIFAR-10 definition).
    """

    rectified: ClassVar[bool] = True

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Norm) -> None:
        super().__init__()
        _check_image_input("nin", input_shape, 8)
        layers: list[nn.Module] = []
        inputs = input_shape[0]
        groups = (((192, 5), (160, 1), (96, 1)), ((192, 5), (192, 1), (192, 1)), ((192, 3), (192, 1)))
        poolings: list[list[nn.Module]] = [
            [nn.MaxPool2d(3, stride=2, padding=1), nn.Dropout(0.5)],
            [nn.AvgPool2d(3, stride=2, padding=1), nn.Dropout(0.5)],
            [],
        ]
        for group, pooling in zip(groups, poolings, strict=True):
            for outputs, kernel in group:
                convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
                layers += _make_relu_block(convolution, norm(outputs))
                inputs = outputs
            layers += pooling
        self.features = nn.Sequential(*layers, nn.Conv2d(inputs, classes, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        return torch.mean(self.features(x), (2, 3))


def _make_relu_block(layer: nn.Module, norm: nn.Module) -> list[nn.Module]:
    return [layer, norm, nn.ReLU()]


def _make_dense_block(inputs: int, norm: Norm | None) -> list[nn.Module]:
    if norm is None:
        return [nn.Linear(inputs, _DENSE_UNITS), nn.ReLU()]
    return _make_relu_block(nn.Linear(inputs, _DENSE_UNITS, bias=False), norm(_DENSE_UNITS))


def _check_image_input(model: str, input_shape: tuple[int, ...], minimum: int) -> None:
    if len(input_shape) != 3 or min(input_shape[1:]) < minimum:
        raise ModelError(
            f"{model} takes images (channels, height, width) of at least {minimum}×{minimum} pixels, "
            f"not inputs of shape {tuple(input_shape)}; use the model `mlp` for these"
        )
