"""The modified LeNet-5 of the BLN paper (Figure 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models.pooling import AveragePool2
from bln_search.norms.no_normalization import drop_biases_of_no_normalization

_KERNEL = 5
_CHANNELS = (6, 16)
_DENSE_UNITS = (120, 84)


class LeNet(nn.Module):
    """Two convolutions and two dense layers with tanh, each with a normalization layer after the nonlinearity.

    conv 6@5×5 same, tanh, average pool 2, norm; conv 16@5×5 valid, tanh, average pool 2, norm; flatten; dense 120,
    tanh, norm; dense 84, tanh, norm; dense to the classes.

    Args:
        input_shape: (C, H, W), H and W at least 12.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.

    Input (N, C, H, W); output (N, classes), logits.
    Source: Ziaee & Çano 2022, section 4.1, Eq. 27; sizes from the authors' notebook.
    """

    stackable: ClassVar[bool] = True

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        minimum = 2 * (_KERNEL + 1)
        if len(input_shape) != 3 or min(input_shape[1:]) < minimum:
            raise ModelError(
                f"lenet takes images (channels, height, width) of at least {minimum}×{minimum} pixels, "
                f"not inputs of shape {tuple(input_shape)}; use the model `mlp` for these"
            )
        channels, height, width = input_shape
        first_channels, second_channels = _CHANNELS
        height_after, width_after = ((extent // 2 - _KERNEL + 1) // 2 for extent in (height, width))
        self.features = nn.Sequential(
            *_make_convolution_block(
                nn.Conv2d(channels, first_channels, _KERNEL, padding=_KERNEL // 2), first_channels, norm
            ),
            *_make_convolution_block(nn.Conv2d(first_channels, second_channels, _KERNEL), second_channels, norm),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            *make_linear_block_layers(second_channels * height_after * width_after, _DENSE_UNITS[0], norm, nn.Tanh),
            *make_linear_block_layers(_DENSE_UNITS[0], _DENSE_UNITS[1], norm, nn.Tanh),
            nn.Linear(_DENSE_UNITS[1], classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


def _make_convolution_block(convolution: nn.Conv2d, channels: int, norm: Callable[[int], nn.Module]) -> list[nn.Module]:
    return [convolution, nn.Tanh(), AveragePool2(), drop_biases_of_no_normalization(norm(channels))]


def make_linear_block_layers(
    inputs: int, outputs: int, norm: Callable[[int], nn.Module], activation: Callable[[], nn.Module]
) -> list[nn.Module]:
    """Return a dense layer with a bias, its nonlinearity, and a normalization layer."""
    return [nn.Linear(inputs, outputs), activation(), drop_biases_of_no_normalization(norm(outputs))]
