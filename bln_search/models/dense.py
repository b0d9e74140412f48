"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models.convolutional import dense_stage


class MLP(nn.Module):
    """Dense layers of the given widths, tanh, a normalization layer behind each; then dense to the classes.

    Input (N, ...), flattened; output (N, classes), logits.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Callable[[int], nn.Module],
        widths: Sequence[int] = (128, 64),
    ) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise ModelError(f"mlp needs at least one hidden layer of at least one unit, not widths {list(widths)}")
        sizes = [prod(input_shape), *widths]
        stages = [module for a, b in pairwise(sizes) for module in dense_stage(a, b, norm, nn.Tanh)]
        self.layers = nn.Sequential(nn.Flatten(), *stages, nn.Linear(sizes[-1], classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, classes)."""
        logits: Tensor = self.layers(x)
        return logits
