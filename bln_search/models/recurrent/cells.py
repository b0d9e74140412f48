"""Recurrent layers with normalization inside: statistics of every time step, one γ and β for all of them.

Written for layer normalization by Ba, Kiros & Hinton 2016; any normalization layer can stand there. Gains start at one
and biases at zero, as the paper's text has it: its supplement, Eq. 22 and 28, prints them the other way round.

norm: makes a normalization layer for a number of features. steps: the longest sequence. gain: what every γ starts at.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.models.recurrent.layer import open_forget_gate
from bln_search.models.recurrent.steps import Norm, StepNorms
from bln_search.models.recurrent.stepwise import GRU, RNN, StepwiseLayer


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
        self.norm = StepNorms(norm, units, steps, gain=gain)

    def summed(self, given: Tensor, recalled: Tensor, position: int) -> Tensor:
        """The summed inputs, normalized."""
        normalized: Tensor = self.norm(given + recalled, position)
        return normalized


class NormalizedLSTM(StepwiseLayer):
    """Norms on the state's share, on the input's share and on the cell where it leaves; gates in the order o, f, i, g.

        (o, f, i, g)_t = norm(W_h h_{t-1}) + norm(W_x x_t) + b,    the bias of f starts at one
        c_t = σ(f_t) c_{t-1} + σ(i_t) tanh(g_t),    h_t = σ(o_t) tanh(norm(c_t))

    Source: Ba, Kiros & Hinton 2016, Eq. 20-22.
    """

    gates = 4
    memories = 2

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
        self.norm_hidden = StepNorms(norm, self.gates * units, steps, gain=gain)
        self.norm_input = StepNorms(norm, self.gates * units, steps, gain=gain)
        self.norm_cell = StepNorms(norm, units, steps, gain=gain)

    def initialize(self, generator: torch.Generator | None) -> None:
        """As every recurrent layer, the forget gate open."""
        super().initialize(generator)
        open_forget_gate(self.bias, self.units)

    def of_input(self, x: Tensor) -> Tensor:
        """W_x x_t of every step, (N, T, 4·units); b comes behind the norms."""
        return F.linear(x, self.weight_input)

    def step(self, given: Tensor, recalled: Tensor, before: tuple[Tensor, ...], position: int) -> tuple[Tensor, ...]:
        """h_t and c_t."""
        summed = self.norm_hidden(recalled, position) + self.norm_input(given, position) + self.bias
        gates, candidate = torch.split(summed, [3 * self.units, self.units], 1)
        out, forget, write = torch.sigmoid(gates).chunk(3, 1)
        cell = forget * before[1] + write * torch.tanh(candidate)
        return out * torch.tanh(self.norm_cell(cell, position)), cell


class NormalizedGRU(GRU):
    """A norm on each of the four products; their βs are the only biases. Weights in the order z, r, candidate.

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
        self.norm_hidden = StepNorms(norm, 2 * units, steps, gain=gain)
        self.norm_input = StepNorms(norm, 2 * units, steps, gain=gain)
        self.norm_candidate = StepNorms(norm, units, steps, gain=gain)
        self.norm_recalled = StepNorms(norm, units, steps, gain=gain)

    def summed(self, given: Tensor, recalled: Tensor, position: int) -> tuple[Tensor, Tensor, Tensor]:
        """z_t and r_t (N, 2·units), W x_t and U h_{t-1} (N, units), each product normalized."""
        gates, new, old_gates, old = self.parted(given, recalled)
        return (
            self.norm_hidden(old_gates, position) + self.norm_input(gates, position),
            self.norm_candidate(new, position),
            self.norm_recalled(old, position),
        )
