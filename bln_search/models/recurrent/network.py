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
from bln_search.models.convolutional import make_linear_block
from bln_search.models.recurrent.cells import NormalizedGRU, NormalizedLSTM, NormalizedRNN
from bln_search.models.recurrent.layer import LSTM, RecurrentLayer
from bln_search.models.recurrent.stepwise import GRU, RNN
from bln_search.models.recurrent.time_step_norms import Norm
from bln_search.norms.no_normalization import without_redundant_bias

_DEFAULT_DROPOUT = 0.2


class _CellLayerClasses(NamedTuple):
    """The two layers of a kind of recurrent cell: without and with normalization inside."""

    plain: type[RecurrentLayer]
    normalized: Callable[..., RecurrentLayer]


_CELLS = {
    "lstm": _CellLayerClasses(LSTM, NormalizedLSTM),
    "gru": _CellLayerClasses(GRU, NormalizedGRU),
    "rnn": _CellLayerClasses(RNN, NormalizedRNN),
}
_NORM_PLACEMENTS = ("layers", "cells")


class RecurrentNetwork(nn.Module):
    """Embedding, recurrent layers each with a normalization layer, dense, tanh, norm, dense to the classes.

    The defaults are those of the paper: embedding 512, LSTM 128, norm on its sequence (N, T, 128), LSTM 64, norm on its
    last state (N, 64), dense 32, tanh, norm, dense 1. For two classes the network has one output z and returns the
    logits (0, z): their softmax cross-entropy is the binary cross-entropy of σ(z).

    Args:
        input_shape: of one example.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        vocabulary: number of token ids; None where inputs are measurements.
        widths: number of units of each recurrent layer.
        embedding: number of features of a token id.
        dense: number of units of the hidden dense layer.
        dropout: probability of dropping an input of a recurrent layer.
        recurrent_dropout: probability of dropping a unit of a hidden state.
        cell: of the recurrent layers: `lstm`, `gru` or `rnn`.
        normalize: `layers` for the normalization layers named above; `cells` for normalization at every time step
            inside the recurrent layers instead.
        gain: initial value of γ inside cells; None for 1.
        dense_weights: initial weights of the dense layers: `glorot` (uniform, Keras's default) or `orthogonal` (as in
            LeNet).

    Input: token ids (N, T) where `vocabulary` is given; otherwise sequences (N, T, D), or images (N, C, H, W), whose H
    rows are the time steps. Output (N, classes), logits.
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
        dropout: float = _DEFAULT_DROPOUT,
        recurrent_dropout: float = _DEFAULT_DROPOUT,
        cell: str = "lstm",
        normalize: str = "layers",
        gain: float | None = None,
        dense_weights: str = "glorot",
    ) -> None:
        super().__init__()
        if dense_weights not in ("glorot", "orthogonal"):
            raise ModelError(f"dense_weights must be glorot or orthogonal, not {dense_weights}")
        self.glorot = dense_weights == "glorot"
        if not widths or min(widths) < 1:
            raise ModelError(f"a recurrent network needs at least one layer of at least one unit, not {list(widths)}")
        steps, features = _sequence_shape(input_shape, is_text=vocabulary is not None)
        self.embedding = None if vocabulary is None else nn.Embedding(vocabulary, embedding)
        self.takes_images = len(input_shape) == 3
        make_layer = _recurrent_layer_factory(cell, normalize, norm, steps, gain)
        outer_norm: Norm = norm if normalize == "layers" else _make_identity
        sizes = [features if vocabulary is None else embedding, *widths]
        self.layers = nn.ModuleList(
            make_layer(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout)
            for inputs, units in pairwise(sizes)
        )
        self.norms = without_redundant_bias(nn.ModuleList(outer_norm(width) for width in widths))
        outputs = 1 if classes == 2 else classes
        self.classifier = nn.Sequential(
            *make_linear_block(sizes[-1], dense, outer_norm, nn.Tanh), nn.Linear(dense, outputs)
        )
        self.has_one_output = classes == 2

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        if self.embedding is not None:
            x = self.embedding(x)
        elif self.takes_images:
            x = x.transpose(1, 2).flatten(2)
        last = len(self.layers) - 1
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x)
            x = norm(x[:, -1] if index == last else x)
        logits: Tensor = self.classifier(x)
        return F.pad(logits, (1, 0)) if self.has_one_output else logits


def _recurrent_layer_factory(
    cell: str, normalize: str, norm: Norm, steps: int, gain: float | None
) -> Callable[..., RecurrentLayer]:
    """Return a function that makes a recurrent layer.

    Raises:
        ModelError: there is no such cell or placement of normalization, or `gain` has no effect.
    """
    if cell not in _CELLS:
        raise ModelError(f"there is no recurrent cell {cell!r}: choose one of {', '.join(_CELLS)}")
    if normalize not in _NORM_PLACEMENTS:
        raise ModelError(f"normalize must be `layers` or `cells`, not {normalize!r}")
    if normalize == "cells":
        return partial(_CELLS[cell].normalized, norm=norm, steps=steps, gain=1.0 if gain is None else gain)
    if gain is not None:
        raise ModelError("gain is an option of normalization inside cells: set normalize to cells, or remove gain")
    return _CELLS[cell].plain


def _make_identity(_features: int) -> nn.Module:
    """Return an identity in place of a normalization layer."""
    return nn.Identity()


def _sequence_shape(input_shape: tuple[int, ...], *, is_text: bool) -> tuple[int, int]:
    """Return the number of time steps, and of measurements in each (0 for texts).

    Raises:
        ModelError: the network does not support inputs of this shape.
    """
    if is_text and len(input_shape) == 1:
        return input_shape[0], 0
    if not is_text and len(input_shape) == 2:
        return input_shape[0], input_shape[1]
    if not is_text and len(input_shape) == 3:
        return input_shape[1], prod(input_shape) // input_shape[1]
    raise ModelError(
        "a recurrent network takes token ids (T,), sequences (T, D) or images (C, H, W), not "
        f"{'token ids' if is_text else 'measurements'} {tuple(input_shape)}"
    )
