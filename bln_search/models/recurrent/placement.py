"""The place of normalization in a recurrent network: after its layers, inside their cells, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bln_search.core.errors import ModelError
from bln_search.models.recurrent.cells import CellOutputNormalizedLSTM, NormalizedGRU, NormalizedLSTM, NormalizedRNN
from bln_search.models.recurrent.layer import LSTM, RecurrentLayer
from bln_search.models.recurrent.stepwise import GRU, RNN
from bln_search.models.recurrent.time_step_norms import REFUSE, Norm

NORMS_AFTER_LAYERS = ("layers", "cells_and_layers")
"""Values of `normalize` with normalization layers after recurrent layers and the dense layer."""

NORMS_INSIDE_CELLS = ("cells", "cell_output", "cells_and_layers")
"""Values of `normalize` with normalization inside recurrent layers."""

_PLACEMENTS = ("layers", *NORMS_INSIDE_CELLS)
_PLAIN_LAYERS: Mapping[str, type[RecurrentLayer]] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}
_NORMALIZED_LAYERS: Mapping[str, Callable[..., RecurrentLayer]] = {
    "lstm": NormalizedLSTM,
    "gru": NormalizedGRU,
    "rnn": NormalizedRNN,
}


def make_recurrent_layer_factory(
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
    if normalize not in NORMS_INSIDE_CELLS:
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
