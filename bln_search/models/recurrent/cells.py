"""Recurrent layers with normalization inside: separate statistics for each time step, shared γ and β.

Ba, Kiros & Hinton 2016 define these cells for layer normalization; here any normalization layer can be used. γ starts
at one and β at zero, as in the text of the paper; Eq. 22 and 28 of its supplement print the two initial values swapped.

Arguments of every cell, in addition to those of `RecurrentLayer`:

norm: makes a normalization layer for a number of features.
steps: length of the longest sequence in training.
gain: initial value of every γ.
longer_sequences: `refuse` or `last_time_step`, see `TimeStepNorms`.

Weight normalization divides the products with W_h and W_x by the norms of the weights of each unit. The output of an
LSTM cell, which has no weights in front of it, is then not normalized.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models.recurrent.layer import set_forget_gate_bias_to_one
from bln_search.models.recurrent.stepwise import GRU, RNN, StepwiseLayer, TimeStep
from bln_search.models.recurrent.time_step_norms import REFUSE, Norm, TimeStepNorms
from bln_search.models.recurrent.weight_normalization import (
    HIDDEN,
    INPUT,
    IdentityTimeStepNorms,
    bind_norms_to_weights,
    makes_analytic_layers,
)
from bln_search.norms.no_normalization import drop_biases_of_no_normalization


class NormalizedRNN(RNN):
    """h_t = tanh(norm(W_h h_{t-1} + W_x x_t)); the β of the norm is the bias.

    Source: Ba, Kiros & Hinton 2016, Eq. 4.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm,
        steps: int,
        *,
        gain: float = 1.0,
        longer_sequences: str = REFUSE,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout, bias=False)
        norms = TimeStepNorms(norm, units, steps, gain=gain, longer_sequences=longer_sequences)
        self.norm = bind_norms_to_weights(norms, self, HIDDEN, INPUT)

    def sum_inputs(self, input_part: Tensor, hidden_part: Tensor, time_step: TimeStep) -> Tensor:
        """Return the normalized summed inputs (N, units)."""
        normalized: Tensor = self.norm(input_part + hidden_part, *time_step)
        return normalized


class _LSTMCell(StepwiseLayer):
    """Four gates, the states h_t and c_t, and a bias with an open forget gate."""

    num_gates = 4
    num_states = 2

    def initialize_weights_and_bias(self, generator: torch.Generator | None) -> None:
        """Initialize as every recurrent layer, with an open forget gate."""
        super().initialize_weights_and_bias(generator)
        set_forget_gate_bias_to_one(self.bias, self.units)


class NormalizedLSTM(_LSTMCell):
    """Norms on the hidden part, the input part and the output of the cell; gates in the order o, f, i, g.

        (o, f, i, g)_t = norm(W_h h_{t-1}) + norm(W_x x_t) + b,    the bias of f starts at one
        c_t = σ(f_t) c_{t-1} + σ(i_t) tanh(g_t),    h_t = σ(o_t) tanh(norm(c_t))

    Source: Ba, Kiros & Hinton 2016, Eq. 20-22.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm,
        steps: int,
        *,
        gain: float = 1.0,
        longer_sequences: str = REFUSE,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout)
        make_norms = partial(TimeStepNorms, norm, steps=steps, gain=gain, longer_sequences=longer_sequences)
        self.norm_hidden = bind_norms_to_weights(make_norms(self.num_gates * units), self, HIDDEN)
        self.norm_input = bind_norms_to_weights(make_norms(self.num_gates * units), self, INPUT)
        self.norm_cell = IdentityTimeStepNorms() if makes_analytic_layers(norm) else make_norms(units)
        drop_biases_of_no_normalization(self)  # b is the bias

    def project_inputs(self, x: Tensor) -> Tensor:
        """Return W_x x_t of every step, (N, T, 4·units); b is added after the norms."""
        return F.linear(x, self.weight_input)

    def step(
        self, input_part: Tensor, hidden_part: Tensor, state: tuple[Tensor, ...], time_step: TimeStep
    ) -> tuple[Tensor, ...]:
        """Return h_t and c_t."""
        summed = self.norm_hidden(hidden_part, *time_step) + self.norm_input(input_part, *time_step) + self.bias
        return _next_lstm_state(summed, state[1], self.norm_cell, time_step)


class CellOutputNormalizedLSTM(_LSTMCell):
    """A norm on the output of the cell only; gates in the order o, f, i, g.

        (o, f, i, g)_t = W_h h_{t-1} + W_x x_t + b,    the bias of f starts at one
        c_t = σ(f_t) c_{t-1} + σ(i_t) tanh(g_t),    h_t = σ(o_t) tanh(norm(c_t))

    Source: Ba, Kiros & Hinton 2016, Eq. 29-31.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm,
        steps: int,
        *,
        gain: float = 1.0,
        longer_sequences: str = REFUSE,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout)
        if makes_analytic_layers(norm):
            raise ModelError(
                "the output of an LSTM cell has no weights directly in front of it, from which statistics could be "
                "computed: set normalize to cells and use wn, or use a method with statistics of the mini-batch"
            )
        self.norm_cell = TimeStepNorms(norm, units, steps, gain=gain, longer_sequences=longer_sequences)
        drop_biases_of_no_normalization(self)  # as in the plain LSTM

    def step(
        self, input_part: Tensor, hidden_part: Tensor, state: tuple[Tensor, ...], time_step: TimeStep
    ) -> tuple[Tensor, ...]:
        """Return h_t and c_t."""
        return _next_lstm_state(input_part + hidden_part, state[1], self.norm_cell, time_step)


def _next_lstm_state(summed: Tensor, cell: Tensor, norm_cell: nn.Module, time_step: TimeStep) -> tuple[Tensor, Tensor]:
    """Return h_t and c_t from the summed inputs of the gates (N, 4·units) and c_{t-1} (N, units)."""
    units = cell.shape[1]
    gates, candidate = torch.split(summed, [3 * units, units], 1)
    output_gate, forget_gate, input_gate = torch.sigmoid(gates).chunk(3, 1)
    cell = forget_gate * cell + input_gate * torch.tanh(candidate)
    return output_gate * torch.tanh(norm_cell(cell, *time_step)), cell


class NormalizedGRU(GRU):
    """A norm on each of the four products; its β are the only biases. Weights in the order z, r, candidate.

        (z, r)_t = norm(W_h h_{t-1}) + norm(W_x x_t),    ĥ_t = tanh(norm(W x_t) + σ(r_t) ⊙ norm(U h_{t-1}))
        h_t = (1 − σ(z_t)) h_{t-1} + σ(z_t) ĥ_t

    Source: Ba, Kiros & Hinton 2016, Eq. 26-28.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm,
        steps: int,
        *,
        gain: float = 1.0,
        longer_sequences: str = REFUSE,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout, bias=False)
        make_norms = partial(TimeStepNorms, norm, steps=steps, gain=gain, longer_sequences=longer_sequences)
        gates, candidate = (0, 2 * units), (2 * units, 3 * units)
        self.norm_hidden = bind_norms_to_weights(make_norms(2 * units), self, HIDDEN, units=gates)
        self.norm_input = bind_norms_to_weights(make_norms(2 * units), self, INPUT, units=gates)
        self.norm_candidate = bind_norms_to_weights(make_norms(units), self, INPUT, units=candidate)
        self.norm_recalled = bind_norms_to_weights(make_norms(units), self, HIDDEN, units=candidate)
        for norms in (self.norm_hidden, self.norm_recalled):
            drop_biases_of_no_normalization(norms)  # the norms of the input parts have the biases, as in the plain GRU

    def gates_and_candidate_terms(
        self, input_part: Tensor, hidden_part: Tensor, time_step: TimeStep
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return z_t and r_t (N, 2·units), W x_t and U h_{t-1} (N, units), with each product normalized."""
        input_gates, input_candidate, hidden_gates, hidden_candidate = self.split_parts_into_gates_and_candidate(
            input_part, hidden_part
        )
        return (
            self.norm_hidden(hidden_gates, *time_step) + self.norm_input(input_gates, *time_step),
            self.norm_candidate(input_candidate, *time_step),
            self.norm_recalled(hidden_candidate, *time_step),
        )
