"""Recurrent layers that take one time step after the other, and the two plain ones among them."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.models.recurrent.layer import RecurrentLayer


class StepwiseLayer(RecurrentLayer):
    """The input's share W_x x_t of all steps in one product; then, step by step, W_h h_{t-1} and what `step` does."""

    memories: int = 1
    """How many tensors (N, units) go from one step to the next; h_t is the first of them. All start at zero."""

    @abstractmethod
    def step(self, given: Tensor, recalled: Tensor, before: tuple[Tensor, ...], position: int) -> tuple[Tensor, ...]:
        """What goes on to the next step.

        given, recalled: W_x x_t and W_h h_{t-1}, (N, gates·units). before: what the last step handed on. position: t,
        counted from 0.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Every hidden state, (N, T, units)."""
        self.check_input(x)
        mask = self.recurrent_mask(x)
        share = self.of_input(self.dropped(x))
        state = (x.new_zeros(x.shape[0], self.units),) * self.memories
        hidden: list[Tensor] = []
        for position, given in enumerate(share.unbind(1)):
            entering = state[0] if mask is None else state[0] * mask
            state = self.step(given, F.linear(entering, self.weight_hidden), state, position)
            hidden.append(state[0])
        return torch.stack(hidden, 1)

    def of_input(self, x: Tensor) -> Tensor:
        """W_x x_t + b of every step, (N, T, gates·units)."""
        return F.linear(x, self.weight_input, self.bias)


class RNN(StepwiseLayer):
    """h_t = tanh(W_h h_{t-1} + W_x x_t + b).

    Source: Ba, Kiros & Hinton 2016, section 3.1.
    """

    gates = 1

    def step(
        self,
        given: Tensor,
        recalled: Tensor,
        before: tuple[Tensor, ...],  # noqa: ARG002 - h_{t-1} enters through W_h only
        position: int,
    ) -> tuple[Tensor, ...]:
        """h_t."""
        return (torch.tanh(self.summed(given, recalled, position)),)

    def summed(self, given: Tensor, recalled: Tensor, position: int) -> Tensor:  # noqa: ARG002 - no norm, every step alike
        """The summed inputs a_t, (N, units)."""
        return given + recalled


class GRU(StepwiseLayer):
    """Gated recurrent unit; weights in the order z, r, candidate.

        h_t = (1 − σ(z_t)) h_{t-1} + σ(z_t) ĥ_t,    ĥ_t = tanh(W x_t + σ(r_t) ⊙ (U h_{t-1}))

    with z_t, r_t = W_h h_{t-1} + W_x x_t. A bias is added to the input's share, unless `bias` is false. Recurrent
    dropout acts on the h_{t-1} of the products, not on the one that is carried over.
    Source: Ba, Kiros & Hinton 2016, Eq. 23-25.
    """

    gates = 3

    def step(self, given: Tensor, recalled: Tensor, before: tuple[Tensor, ...], position: int) -> tuple[Tensor, ...]:
        """h_t."""
        gates, new, old = self.summed(given, recalled, position)
        update, reset = torch.sigmoid(gates).chunk(2, 1)
        candidate = torch.tanh(new + reset * old)
        return (torch.lerp(before[0], candidate, update),)

    def summed(self, given: Tensor, recalled: Tensor, position: int) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG002
        """z_t and r_t (N, 2·units), W x_t and U h_{t-1} (N, units)."""
        gates, new, old_gates, old = self.parted(given, recalled)
        return gates + old_gates, new, old

    def parted(self, given: Tensor, recalled: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of the input's share and of the state's: what the gates take, (N, 2·units), and the candidate, (N, units)."""
        sizes = [2 * self.units, self.units]
        gates, new = torch.split(given, sizes, 1)
        old_gates, old = torch.split(recalled, sizes, 1)
        return gates, new, old_gates, old
