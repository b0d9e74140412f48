"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import ClassVar

from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models.activations import SlopedReLU
from bln_search.models.lenet import make_linear_block_layers

_ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "logistic": nn.Sigmoid,
    "sloped_relu": SlopedReLU,
}


class MLP(nn.Module):
    """Hidden dense layers, each with a nonlinearity and a normalization layer; then a dense layer to the classes.

    Args:
        input_shape: of one example.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        widths: number of units of each hidden layer.
        activation: `tanh`, `relu`, `logistic` or `sloped_relu`, max(0, x) + 0.03·x.
        placement: of the normalization layer: `after` the nonlinearity (BLN paper, Eq. 27), or `before` it, on the
            summed inputs (Ba, Kiros & Hinton 2016, Eq. 5), which then have no bias.
        output_norm: whether the last layer has no bias and a normalization layer after it, on the logits.

    Input (N, ...), flattened; output (N, classes), logits.
    """

    stackable: ClassVar[bool] = True

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Callable[[int], nn.Module],
        widths: Sequence[int] = (128, 64),
        activation: str = "tanh",
        placement: str = "after",
        output_norm: bool = False,  # noqa: FBT001, FBT002 - an option of a study file
    ) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise ModelError(f"mlp needs at least one hidden layer of at least one unit, not widths {list(widths)}")
        if activation not in _ACTIVATIONS or placement not in ("after", "before"):
            raise ModelError(
                f"mlp has the activations {', '.join(_ACTIVATIONS)} and the placements after and before, "
                f"not {activation} and {placement}"
            )
        self.rectified = activation in ("relu", "sloped_relu")
        make_activation = _ACTIVATIONS[activation]
        sizes = [prod(input_shape), *widths]
        stages: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            if placement == "before":
                stages += [nn.Linear(inputs, outputs, bias=False), norm(outputs), make_activation()]
            else:
                stages += make_linear_block_layers(inputs, outputs, norm, make_activation)
        stages.append(nn.Linear(sizes[-1], classes, bias=not output_norm))
        self.layers = nn.Sequential(nn.Flatten(), *stages, *([norm(classes)] if output_norm else []))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        logits: Tensor = self.layers(x)
        return logits
