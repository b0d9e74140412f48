"""The modified LeNet-5 of the BLN paper (Figure 3)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models.pooling import AveragePool2

_KERNEL = 5
_CHANNELS, _DENSE = (6, 16), (120, 84)


class LeNet(nn.Module):
    """Two convolutions and two dense layers, tanh, a normalization layer behind each (after the nonlinearity).

    conv 6@5×5 same, tanh, average pool 2, norm; conv 16@5×5 valid, tanh, average pool 2, norm; flatten; dense 120,
    tanh, norm; dense 84, tanh, norm; dense to the classes.

    Input (N, C, H, W), H and W at least 12; output (N, classes), logits.
    Source: Ziaee & Çano 2022, section 4.1, Eq. 27; sizes from the authors' notebook.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        smallest = 2 * (_KERNEL + 1)
        if len(input_shape) != 3 or min(input_shape[1:]) < smallest:
            raise ModelError(
                f"lenet takes images (channels, height, width) of at least {smallest}×{smallest} pixels, "
                f"not inputs of shape {tuple(input_shape)}; use the model `mlp` for these"
            )
        channels, height, width = input_shape
        first, second = _CHANNELS
        left = [(extent // 2 - _KERNEL + 1) // 2 for extent in (height, width)]
        self.features = nn.Sequential(
            *_stage(nn.Conv2d(channels, first, _KERNEL, padding=_KERNEL // 2), first, norm),
            *_stage(nn.Conv2d(first, second, _KERNEL), second, norm),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            *dense_stage(second * left[0] * left[1], _DENSE[0], norm, nn.Tanh),
            *dense_stage(_DENSE[0], _DENSE[1], norm, nn.Tanh),
            nn.Linear(_DENSE[1], classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, classes)."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


def _stage(convolution: nn.Conv2d, channels: int, norm: Callable[[int], nn.Module]) -> list[nn.Module]:
    return [convolution, nn.Tanh(), AveragePool2(), norm(channels)]


def dense_stage(
    inputs: int, outputs: int, norm: Callable[[int], nn.Module], activation: Callable[[], nn.Module]
) -> list[nn.Module]:
    """A dense layer, its nonlinearity, and a normalization layer behind it."""
    return [nn.Linear(inputs, outputs), activation(), norm(outputs)]
