"""The recurrent network of the BLN paper (Figure 5), with other cells and with normalization inside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod

from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.data.texts import PADDING
from bln_search.models.lenet import make_linear_block_layers
from bln_search.models.recurrent.cells import CellOutputNormalizedLSTM, NormalizedGRU, NormalizedLSTM, NormalizedRNN
from bln_search.models.recurrent.layer import LSTM, RecurrentLayer
from bln_search.models.recurrent.stepwise import GRU, RNN
from bln_search.models.recurrent.time_step_norms import REFUSE, Norm
from bln_search.norms.no_normalization import drop_biases_of_no_normalization

_DEFAULT_DROPOUT = 0.2

_NORMS_AFTER_LAYERS = ("layers", "cells_and_layers")
"""Values of `normalize` with normalization layers after recurrent layers and the dense layer."""

_NORMS_INSIDE_CELLS = ("cells", "cell_output", "cells_and_layers")
"""Values of `normalize` with normalization inside recurrent layers."""

_PLACEMENTS = ("layers", *_NORMS_INSIDE_CELLS)
_PLAIN_LAYERS: Mapping[str, type[RecurrentLayer]] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}
_NORMALIZED_LAYERS: Mapping[str, Callable[..., RecurrentLayer]] = {
    "lstm": NormalizedLSTM,
    "gru": NormalizedGRU,
    "rnn": NormalizedRNN,
}


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
            inside the recurrent layers instead; `cell_output` for that of the output of LSTM cells only;
            `cells_and_layers` for both.
        gain: initial value of γ inside cells; None for 1.
        longer_sequences: for norms inside cells, at time steps after those of `input_shape`: `refuse`, or
            `last_time_step` for the statistics of the last one (see `TimeStepNorms`); None for `refuse`.
        mask_padding: whether the state stays as it is where a token is padding (token id 0), and statistics inside
            cells are of the other examples only. None for False.
        dense_weights: initial weights of the dense layers: `glorot` (uniform, Keras's default) or `orthogonal` (as in
            LeNet).
        per_token: whether the dense layers are applied to every state of the last recurrent layer.

    Input: token ids (N, T) where `vocabulary` is given; otherwise sequences (N, T, D), or images (N, C, H, W), whose H
    rows are the time steps. Output (N, classes), logits; with `per_token` (N, T, classes).
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
        longer_sequences: str | None = None,
        mask_padding: bool | None = None,  # noqa: FBT001
        per_token: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__()
        if dense_weights not in ("glorot", "orthogonal"):
            raise ModelError(f"dense_weights must be glorot or orthogonal, not {dense_weights}")
        self.glorot = dense_weights == "glorot"
        if not widths or min(widths) < 1:
            raise ModelError(f"a recurrent network needs at least one layer of at least one unit, not {list(widths)}")
        steps, features = _steps_and_measurements(input_shape, is_text=vocabulary is not None)
        self.embedding = None if vocabulary is None else nn.Embedding(vocabulary, embedding)
        self.takes_images = len(input_shape) == 3
        if mask_padding and (normalize in _NORMS_AFTER_LAYERS or vocabulary is None):
            raise ModelError(
                "mask_padding needs token ids, and normalization inside cells alone: set normalize to cells or "
                "cell_output, or remove mask_padding"
            )
        self.mask_padding = bool(mask_padding)
        make_layer = _make_recurrent_layer_factory(cell, normalize, norm, steps, gain, longer_sequences)
        outer_norm: Norm = norm if normalize in _NORMS_AFTER_LAYERS else _make_identity
        sizes = [features if vocabulary is None else embedding, *widths]
        self.layers = nn.ModuleList(
            make_layer(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout)
            for inputs, units in pairwise(sizes)
        )
        self.norms = drop_biases_of_no_normalization(nn.ModuleList(outer_norm(width) for width in widths))
        outputs = 1 if classes == 2 else classes
        self.classifier = nn.Sequential(
            *make_linear_block_layers(sizes[-1], dense, outer_norm, nn.Tanh), nn.Linear(dense, outputs)
        )
        self.has_one_output = classes == 2
        self.per_token = per_token

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes), or (N, T, classes)."""
        masks = (x != PADDING,) if self.mask_padding else ()
        if self.embedding is not None:
            x = self.embedding(x)
        elif self.takes_images:
            x = x.transpose(1, 2).flatten(2)
        last = len(self.layers) - 1
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x, *masks)
            x = norm(x if index < last or self.per_token else x[:, -1])
        logits: Tensor = self.classifier(x)
        return F.pad(logits, (1, 0)) if self.has_one_output else logits


def _make_identity(_features: int) -> nn.Module:
    """Return an identity in place of a normalization layer."""
    return nn.Identity()


def _steps_and_measurements(input_shape: tuple[int, ...], *, is_text: bool) -> tuple[int, int]:
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


def _make_recurrent_layer_factory(
    cell: str, normalize: str, norm: Norm, steps: int, gain: float | None, longer_sequences: str | None
) -> Callable[..., RecurrentLayer]:
    """Return a function that makes a recurrent layer.

    Args:
        cell: `lstm`, `gru` or `rnn`.
        normalize: the place of normalization.
        norm: makes a normalization layer for a number of features.
        steps: length of the longest sequence in training.
        gain: initial value of γ inside cells; None for 1.
        longer_sequences: see `TimeStepNorms`; None for `refuse`.

    Raises:
        ModelError: there is no such cell or place of normalization, or an option has no effect.
    """
    if cell not in _PLAIN_LAYERS:
        raise ModelError(f"there is no recurrent cell {cell!r}: choose one of {', '.join(_PLAIN_LAYERS)}")
    if normalize not in _PLACEMENTS:
        raise ModelError(f"normalize must be one of {', '.join(_PLACEMENTS)}, not {normalize!r}")
    if normalize == "cell_output" and cell != "lstm":
        raise ModelError(f"only an lstm has an output of its cell, not a {cell}: set normalize to cells or layers")
    if normalize not in _NORMS_INSIDE_CELLS:
        for name, value in (("gain", gain), ("longer_sequences", longer_sequences)):
            if value is not None:
                raise ModelError(
                    f"{name} is an option of normalization inside cells: set normalize to cells, or remove {name}"
                )
        return _PLAIN_LAYERS[cell]
    layer = CellOutputNormalizedLSTM if normalize == "cell_output" else _NORMALIZED_LAYERS[cell]
    return partial(
        layer,
        norm=norm,
        steps=steps,
        gain=1.0 if gain is None else gain,
        longer_sequences=longer_sequences or REFUSE,
    )
