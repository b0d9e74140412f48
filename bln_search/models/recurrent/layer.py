"""The base class of recurrent layers, and the LSTM without normalization inside."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models.recurrent.lstm_recurrence import run_lstm
from bln_search.norms.row_batching.row_tensor import RowBatchedTensor, remove_row_tag, tag_with_rows


class RecurrentLayer(nn.Module):
    """Maps a sequence (N, T, inputs) to its hidden states (N, T, units), h_0 = 0.

    Both dropout masks are drawn once for a sequence and used at every step (Gal & Ghahramani 2016).

    Args:
        inputs: number of inputs in each time step.
        units: number of hidden units.
        dropout: probability of dropping an input.
        recurrent_dropout: probability of dropping a unit of h_{t-1} in its products with weights.
        bias: whether the layer has a bias.

    Attributes:
        num_gates: number of linear maps to `units` outputs in a step.
    """

    num_gates: int

    def __init__(
        self, inputs: int, units: int, *, dropout: float = 0.0, recurrent_dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        for name, value in (("dropout", dropout), ("recurrent_dropout", recurrent_dropout)):
            if not 0 <= value < 1:
                raise ModelError(f"{name} must be at least 0 and below 1, not {value}")
        if min(inputs, units) < 1:
            raise ModelError(f"a recurrent layer needs at least one input and one unit, not {inputs} and {units}")
        self.inputs, self.units = inputs, units
        self.dropout, self.recurrent_dropout = dropout, recurrent_dropout
        self.weight_input = nn.Parameter(torch.empty(self.num_gates * units, inputs))
        self.weight_hidden = nn.Parameter(torch.empty(self.num_gates * units, units))
        self.bias = nn.Parameter(torch.empty(self.num_gates * units)) if bias else None
        self.initialize_weights_and_bias(None)

    def initialize_weights_and_bias(self, generator: torch.Generator | None) -> None:
        """Draw Glorot uniform input weights and orthogonal recurrent weights; set the bias to zero."""
        nn.init.xavier_uniform_(self.weight_input, generator=generator)
        nn.init.orthogonal_(self.weight_hidden, generator=generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def check_input(self, x: Tensor) -> None:
        """Raise ModelError unless `x` is a sequence of this layer's inputs."""
        if x.ndim != 3 or x.shape[2] != self.inputs or x.shape[1] < 1:
            raise ModelError(f"this layer takes sequences (N, T, {self.inputs}), not an input of {tuple(x.shape)}")

    def apply_input_dropout(self, x: Tensor) -> Tensor:
        """Apply dropout to the input (N, T, inputs), with the same mask at every step."""
        if not (self.training and self.dropout):
            return x
        return x * F.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), self.dropout)

    def draw_recurrent_dropout_mask(self, x: Tensor) -> Tensor | None:
        """Return the dropout mask (N, units) of h_{t-1}, the same at every step; None without dropout."""
        if not (self.training and self.recurrent_dropout):
            return None
        return F.dropout(x.new_ones(x.shape[0], self.units), self.recurrent_dropout)

    def extra_repr(self) -> str:
        """Return sizes and dropout."""
        return f"{self.inputs}, {self.units}, dropout={self.dropout}, recurrent_dropout={self.recurrent_dropout}"


def set_forget_gate_bias_to_one(bias: Tensor | None, units: int) -> None:
    """Set the forget gate of a bias (o, f, i, g) to one. Source: Jozefowicz, Zaremba & Sutskever 2015."""
    if bias is not None:
        nn.init.ones_(bias.data[units : 2 * units])


class LSTM(RecurrentLayer):
    """Long short-term memory: one product for the inputs of all steps, then one small product in each step.

    Weights of the gates are concatenated in the order o, f, i, g; the bias of f starts at one.
    Source: Ba, Kiros & Hinton 2016, Eq. 17-19.
    """

    num_gates = 4

    def initialize_weights_and_bias(self, generator: torch.Generator | None) -> None:
        """Initialize as every recurrent layer, with an open forget gate."""
        super().initialize_weights_and_bias(generator)
        set_forget_gate_bias_to_one(self.bias, self.units)

    def forward(self, x: Tensor) -> Tensor:
        """Return all hidden states (N, T, units); for an input with a row tag, those of all rows."""
        self.check_input(x)
        mask = self.draw_recurrent_dropout_mask(x)
        projected = F.linear(self.apply_input_dropout(x), self.weight_input, self.bias)
        if isinstance(projected, RowBatchedTensor):
            return tag_with_rows(
                self._run_recurrence(remove_row_tag(projected), mask), projected.batch_layout, projected.copies
            )
        return self._run_recurrence(projected, mask)

    def _run_recurrence(self, projected: Tensor, mask: Tensor | None) -> Tensor:
        weight = self.weight_hidden.to(projected.dtype)  # under autocast the product has another dtype
        mask = None if mask is None else mask.to(projected.dtype)
        return run_lstm(projected.transpose(0, 1), weight, mask).transpose(0, 1)
