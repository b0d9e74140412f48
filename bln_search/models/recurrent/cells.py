"""Recurrent layers with normalization inside: separate statistics for each time step, shared γ and β.

Ba, Kiros & Hinton 2016 define these cells for layer normalization; here any normalization layer can be used. γ starts
at one and β at zero, as in the text of the paper; Eq. 22 and 28 of its supplement print the two initial values swapped.

Arguments of every cell, in addition to those of `RecurrentLayer`:

norm: makes a normalization layer for a number of features.
steps: length of the longest sequence.
gain: initial value of every γ.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.models.recurrent.layer import set_forget_gate_bias
from bln_search.models.recurrent.stepwise import GRU, RNN, StepwiseLayer
from bln_search.models.recurrent.time_step_norms import Norm, TimeStepNorms
from bln_search.norms.no_normalization import without_redundant_bias


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
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout, bias=False)
        self.norm = TimeStepNorms(norm, units, steps, gain=gain)

    def preactivation(self, input_part: Tensor, hidden_part: Tensor, time_step: int) -> Tensor:
        """Return the normalized summed inputs (N, units)."""
        normalized: Tensor = self.norm(input_part + hidden_part, time_step)
        return normalized


class NormalizedLSTM(StepwiseLayer):
    """Norms on the hidden part, the input part and the output of the cell; gates in the order o, f, i, g.

        (o, f, i, g)_t = norm(W_h h_{t-1}) + norm(W_x x_t) + b,    the bias of f starts at one
        c_t = σ(f_t) c_{t-1} + σ(i_t) tanh(g_t),    h_t = σ(o_t) tanh(norm(c_t))

    Source: Ba, Kiros & Hinton 2016, Eq. 20-22.
    """

    num_gates = 4
    num_states = 2

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm,
        steps: int,
        *,
        gain: float = 1.0,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout)
        self.norm_hidden = TimeStepNorms(norm, self.num_gates * units, steps, gain=gain)
        self.norm_input = TimeStepNorms(norm, self.num_gates * units, steps, gain=gain)
        self.norm_cell = TimeStepNorms(norm, units, steps, gain=gain)
        without_redundant_bias(self)  # b is the bias

    def initialize(self, generator: torch.Generator | None) -> None:
        """Initialize as every recurrent layer, with an open forget gate."""
        super().initialize(generator)
        set_forget_gate_bias(self.bias, self.units)

    def project_inputs(self, x: Tensor) -> Tensor:
        """Return W_x x_t of every step, (N, T, 4·units); b is added after the norms."""
        return F.linear(x, self.weight_input)

    def step(
        self, input_part: Tensor, hidden_part: Tensor, state: tuple[Tensor, ...], time_step: int
    ) -> tuple[Tensor, ...]:
        """Return h_t and c_t."""
        summed = self.norm_hidden(hidden_part, time_step) + self.norm_input(input_part, time_step) + self.bias
        gates, candidate = torch.split(summed, [3 * self.units, self.units], 1)
        output_gate, forget_gate, input_gate = torch.sigmoid(gates).chunk(3, 1)
        cell = forget_gate * state[1] + input_gate * torch.tanh(candidate)
        return output_gate * torch.tanh(self.norm_cell(cell, time_step)), cell


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
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, units, dropout=dropout, recurrent_dropout=recurrent_dropout, bias=False)
        self.norm_hidden = TimeStepNorms(norm, 2 * units, steps, gain=gain)
        self.norm_input = TimeStepNorms(norm, 2 * units, steps, gain=gain)
        self.norm_candidate = TimeStepNorms(norm, units, steps, gain=gain)
        self.norm_recalled = TimeStepNorms(norm, units, steps, gain=gain)
        for norms in (self.norm_hidden, self.norm_recalled):
            without_redundant_bias(norms)  # the norms of the input parts have the biases, as in the plain GRU

    def gates_and_candidate_terms(
        self, input_part: Tensor, hidden_part: Tensor, time_step: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return z_t and r_t (N, 2·units), W x_t and U h_{t-1} (N, units), with each product normalized."""
        input_gates, input_candidate, hidden_gates, hidden_candidate = self.split_gates(input_part, hidden_part)
        return (
            self.norm_hidden(hidden_gates, time_step) + self.norm_input(input_gates, time_step),
            self.norm_candidate(input_candidate, time_step),
            self.norm_recalled(hidden_candidate, time_step),
        )
