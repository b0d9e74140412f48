"""The recurrent network of the BLN paper (Figure 5), with other cells and with normalization inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models.convolutional import dense_stage
from bln_search.models.recurrent.cells import NormalizedGRU, NormalizedLSTM, NormalizedRNN
from bln_search.models.recurrent.layer import LSTM, RecurrentLayer
from bln_search.models.recurrent.steps import Norm
from bln_search.models.recurrent.stepwise import GRU, RNN

_DROPOUT = 0.2


class _Cell(NamedTuple):
    """A kind of recurrent layer: without normalization inside, and with it."""

    plain: type[RecurrentLayer]
    normalized: Callable[..., RecurrentLayer]


_CELLS = {
    "lstm": _Cell(LSTM, NormalizedLSTM),
    "gru": _Cell(GRU, NormalizedGRU),
    "rnn": _Cell(RNN, NormalizedRNN),
}
_PLACES = ("layers", "cells")


class Recurrent(nn.Module):
    """Embedding, recurrent layers with a normalization layer behind each, dense, tanh, norm, dense to the classes.

    By default as in the paper: embedding 512, LSTM 128, norm on its sequence (N, T, 128), LSTM 64, norm on its last
    state (N, 64), dense 32, tanh, norm, dense 1. Two classes have one output z, handed on as the logits (0, z): the
    softmax cross-entropy of these is the binary cross-entropy of σ(z).

    cell: of the recurrent layers, `lstm`, `gru` or `rnn`. normalize: `layers` as above; or `cells`, inside the
    recurrent layers at every time step of an input and nowhere else. gain: what γ starts at inside cells, by default 1.
    dense_weights: first weights of the dense layers, `glorot` (uniform, Keras's default) or `orthogonal`, as in LeNet.

    Input: marks (N, T) of words below `vocabulary`; without one sequences (N, T, D), or images (N, C, H, W), whose H
    rows are the steps. Output (N, classes), logits.
    Source: Ziaee & Çano 2022, section 4.2, Figure 5; sizes from the authors' notebook. Cells: Ba, Kiros & Hinton 2016.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Norm,
        vocabulary: int | None = None,
        widths: Sequence[int] = (128, 64),
        embedding: int = 512,
        dense: int = 32,
        dropout: float = _DROPOUT,
        recurrent_dropout: float = _DROPOUT,
        cell: str = "lstm",
        normalize: str = "layers",
        gain: float | None = None,
        dense_weights: str = "glorot",
    ) -> None:
        super().__init__()
        if dense_weights not in ("glorot", "orthogonal"):
            raise ModelError(f"dense_weights are glorot or orthogonal, not {dense_weights}")
        self.glorot = dense_weights == "glorot"
        if not widths or min(widths) < 1:
            raise ModelError(f"a recurrent network needs at least one layer of at least one unit, not {list(widths)}")
        steps, measured = _sizes(input_shape, words=vocabulary is not None)
        self.embedding = None if vocabulary is None else nn.Embedding(vocabulary, embedding)
        self.images = len(input_shape) == 3
        make = _layer(cell, normalize, norm, steps, gain)
        behind: Norm = norm if normalize == "layers" else _nothing
        sizes = [measured if vocabulary is None else embedding, *widths]
        self.layers = nn.ModuleList(
            make(a, b, dropout=dropout, recurrent_dropout=recurrent_dropout) for a, b in pairwise(sizes)
        )
        self.norms = nn.ModuleList(behind(width) for width in widths)
        outputs = 1 if classes == 2 else classes
        self.classifier = nn.Sequential(*dense_stage(sizes[-1], dense, behind, nn.Tanh), nn.Linear(dense, outputs))
        self.one_output = classes == 2

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, classes)."""
        if self.embedding is not None:
            x = self.embedding(x)
        elif self.images:
            x = x.transpose(1, 2).flatten(2)
        last = len(self.layers) - 1
        for position, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x)
            x = norm(x[:, -1] if position == last else x)
        logits: Tensor = self.classifier(x)
        return F.pad(logits, (1, 0)) if self.one_output else logits


def _layer(cell: str, normalize: str, norm: Norm, steps: int, gain: float | None) -> Callable[..., RecurrentLayer]:
    """What makes a recurrent layer. Raises ModelError for a cell or a place of normalization that there is not."""
    if cell not in _CELLS:
        raise ModelError(f"there is no recurrent cell {cell!r}: choose one of {', '.join(_CELLS)}")
    if normalize not in _PLACES:
        raise ModelError(f"a recurrent network is normalized in its `layers` or in its `cells`, not {normalize!r}")
    if normalize == "cells":
        return partial(_CELLS[cell].normalized, norm=norm, steps=steps, gain=1.0 if gain is None else gain)
    if gain is not None:
        raise ModelError("gain is of the normalization inside cells: say normalize: cells, or leave it out")
    return _CELLS[cell].plain


def _nothing(_features: int) -> nn.Module:
    """In place of a normalization layer."""
    return nn.Identity()


def _sizes(input_shape: tuple[int, ...], *, words: bool) -> tuple[int, int]:
    """Time steps, and measurements in each (0 of words)."""
    if words and len(input_shape) == 1:
        return input_shape[0], 0
    if not words and len(input_shape) == 2:
        return input_shape[0], input_shape[1]
    if not words and len(input_shape) == 3:
        return input_shape[1], prod(input_shape) // input_shape[1]
    raise ModelError(
        "a recurrent network takes words (T,), sequences (T, D) or images (C, H, W), not "
        f"{'words' if words else 'measurements'} {tuple(input_shape)}"
    )
