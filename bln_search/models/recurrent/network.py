"""The recurrent network of the BLN paper (Figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models.convolutional import dense_stage
from bln_search.models.recurrent.layer import LSTM

_DROPOUT = 0.2


class Recurrent(nn.Module):
    """Embedding, recurrent layers with a normalization layer behind each, dense, tanh, norm, dense to the classes.

    By default as in the paper: embedding 512, LSTM 128, norm on its sequence (N, T, 128), LSTM 64, norm on its last
    state (N, 64), dense 32, tanh, norm, dense 1. Two classes have one output z, handed on as the logits (0, z): the
    softmax cross-entropy of these is the binary cross-entropy of σ(z).

    Input: marks (N, T) of words below `vocabulary`; without one sequences (N, T, D), or images (N, C, H, W), whose H
    rows are the steps. Output (N, classes), logits.
    Source: Ziaee & Çano 2022, section 4.2, Figure 5; sizes from the authors' notebook.
    """

    glorot: ClassVar[bool] = True

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Callable[[int], nn.Module],
        vocabulary: int | None = None,
        widths: Sequence[int] = (128, 64),
        embedding: int = 512,
        dense: int = 32,
        dropout: float = _DROPOUT,
        recurrent_dropout: float = _DROPOUT,
    ) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise ModelError(f"a recurrent network needs at least one layer of at least one unit, not {list(widths)}")
        self.embedding = None if vocabulary is None else nn.Embedding(vocabulary, embedding)
        features = embedding if vocabulary is not None else _features(input_shape)
        sizes = [features, *widths]
        self.layers = nn.ModuleList(
            LSTM(a, b, dropout=dropout, recurrent_dropout=recurrent_dropout) for a, b in pairwise(sizes)
        )
        self.norms = nn.ModuleList(norm(width) for width in widths)
        outputs = 1 if classes == 2 else classes
        self.classifier = nn.Sequential(*dense_stage(sizes[-1], dense, norm, nn.Tanh), nn.Linear(dense, outputs))
        self.one_output = classes == 2

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, classes)."""
        x = _steps(x) if self.embedding is None else self.embedding(x)
        last = len(self.layers) - 1
        for position, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x)
            x = norm(x[:, -1] if position == last else x)
        logits: Tensor = self.classifier(x)
        return F.pad(logits, (1, 0)) if self.one_output else logits


def _features(input_shape: tuple[int, ...]) -> int:
    if len(input_shape) == 2:
        return input_shape[1]
    if len(input_shape) == 3:
        return prod(input_shape) // input_shape[1]
    raise ModelError(
        f"a recurrent network takes words (T,), sequences (T, D) or images (C, H, W), not {tuple(input_shape)}"
    )


def _steps(x: Tensor) -> Tensor:
    """Images as sequences of their rows; sequences as they are."""
    return x.transpose(1, 2).flatten(2) if x.ndim == 4 else x
