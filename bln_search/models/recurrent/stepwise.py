"""Recurrent layers that compute one time step after the other: the base class, RNN and GRU."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.models.recurrent.layer import RecurrentLayer
from bln_search.models.recurrent.time_step_norms import TimeStepNorms


class TimeStep(NamedTuple):
    """A time step of a mini-batch.

    Attributes:
        step: counted from 0.
        present: (N,), whether each example has a value at this step; None where all examples have values at all steps.
    """

    step: int
    present: Tensor | None = None


class StepwiseLayer(RecurrentLayer):
    """One product W_x x_t for the inputs of all steps; then, in each step, W_h h_{t-1} and `step`.

    The state holds the tensors (N, units) that one step passes to the next, h_t first. It starts at zero.
    """

    num_states: int = 1
    """Number of tensors in the state."""

    @abstractmethod
    def step(
        self, input_part: Tensor, hidden_part: Tensor, state: tuple[Tensor, ...], time_step: TimeStep
    ) -> tuple[Tensor, ...]:
        """Return the state after a step.

        Args:
            input_part: W_x x_t, with the bias if there is one, (N, num_gates·units).
            hidden_part: W_h h_{t-1}, (N, num_gates·units).
            state: after the previous step.
            time_step: t, and the examples that have a value there.
        """

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Return all hidden states (N, T, units).

        Args:
            x: inputs (N, T, inputs).
            present: (N, T), whether x_t is a value, not padding. Where it is padding the state stays as it is, and the
                example is in no statistic of that step. None where nothing is padding.

        Raises:
            ModelError: a layer inside has no statistics for a step of the sequence.
        """
        self.check_input(x)
        for norms in self.children():
            if isinstance(norms, TimeStepNorms):
                norms.check_steps(x.shape[1], x)
        mask = self.draw_recurrent_dropout_mask(x)
        input_parts = self.project_inputs(self.apply_input_dropout(x)).unbind(1)
        present_by_step = [None] * len(input_parts) if present is None else present.unbind(1)
        state = self.initial_state(x)
        hidden_states: list[Tensor] = []
        for time_step, input_part in zip(
            map(TimeStep, range(len(input_parts)), present_by_step), input_parts, strict=True
        ):
            hidden = state[0] if mask is None else state[0] * mask
            state = _keep_state_of_absent_examples(
                state, self.step(input_part, F.linear(hidden, self.weight_hidden), state, time_step), time_step
            )
            hidden_states.append(state[0])
        return torch.stack(hidden_states, 1)

    def initial_state(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the state before the first step, for the examples of `x` (N, ...)."""
        return (x.new_zeros(x.shape[0], self.units),) * self.num_states

    def advance(self, x: Tensor, state: tuple[Tensor, ...], time_step: TimeStep) -> tuple[Tensor, ...]:
        """Return the state after one step, for a network whose inputs depend on earlier states.

        Args:
            x: inputs of this step, (N, inputs).
            state: after the previous step.
            time_step: the step.
        """
        return self.step(self.project_inputs(x), F.linear(state[0], self.weight_hidden), state, time_step)

    def project_inputs(self, x: Tensor) -> Tensor:
        """Return W_x x_t + b, (..., num_gates·units), for inputs (..., inputs)."""
        return F.linear(x, self.weight_input, self.bias)


def _keep_state_of_absent_examples(
    before: tuple[Tensor, ...], after: tuple[Tensor, ...], time_step: TimeStep
) -> tuple[Tensor, ...]:
    """Return the state after a step, with that before the step for examples without a value."""
    if time_step.present is None:
        return after
    present = time_step.present.unsqueeze(1)
    return tuple(torch.where(present, new, old) for new, old in zip(after, before, strict=True))


class RNN(StepwiseLayer):
    """h_t = tanh(W_h h_{t-1} + W_x x_t + b).

    Source: Ba, Kiros & Hinton 2016, section 3.1.
    """

    num_gates = 1

    def step(
        self,
        input_part: Tensor,
        hidden_part: Tensor,
        state: tuple[Tensor, ...],  # noqa: ARG002 - h_{t-1} is used only in its product with W_h
        time_step: TimeStep,
    ) -> tuple[Tensor, ...]:
        """Return h_t."""
        return (torch.tanh(self.sum_inputs(input_part, hidden_part, time_step)),)

    def sum_inputs(
        self,
        input_part: Tensor,
        hidden_part: Tensor,
        time_step: TimeStep,  # noqa: ARG002 - only a norm depends on the step
    ) -> Tensor:
        """Return the summed inputs a_t (N, units)."""
        return input_part + hidden_part


class GRU(StepwiseLayer):
    """Gated recurrent unit; weights in the order z, r, candidate.

        h_t = (1 − σ(z_t)) h_{t-1} + σ(z_t) ĥ_t,    ĥ_t = tanh(W x_t + σ(r_t) ⊙ (U h_{t-1}))

    with z_t, r_t = W_h h_{t-1} + W_x x_t. A bias is added to the input part, unless `bias` is false. Recurrent dropout
    applies to h_{t-1} in the products with weights, not in the first term of h_t.
    Source: Ba, Kiros & Hinton 2016, Eq. 23-25.
    """

    num_gates = 3

    def step(
        self, input_part: Tensor, hidden_part: Tensor, state: tuple[Tensor, ...], time_step: TimeStep
    ) -> tuple[Tensor, ...]:
        """Return h_t."""
        gates, input_candidate, hidden_candidate = self.gates_and_candidate_terms(input_part, hidden_part, time_step)
        update, reset = torch.sigmoid(gates).chunk(2, 1)
        candidate = torch.tanh(input_candidate + reset * hidden_candidate)
        return (torch.lerp(state[0], candidate, update),)

    def gates_and_candidate_terms(
        self,
        input_part: Tensor,
        hidden_part: Tensor,
        time_step: TimeStep,  # noqa: ARG002 - only a norm depends on the step
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return z_t and r_t (N, 2·units), W x_t and U h_{t-1} (N, units)."""
        input_gates, input_candidate, hidden_gates, hidden_candidate = self.split_parts_into_gates_and_candidate(
            input_part, hidden_part
        )
        return input_gates + hidden_gates, input_candidate, hidden_candidate

    def split_parts_into_gates_and_candidate(
        self, input_part: Tensor, hidden_part: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Split the input part, then the hidden part, into gates (N, 2·units) and candidate (N, units)."""
        sizes = [2 * self.units, self.units]
        input_gates, input_candidate = torch.split(input_part, sizes, 1)
        hidden_gates, hidden_candidate = torch.split(hidden_part, sizes, 1)
        return input_gates, input_candidate, hidden_gates, hidden_candidate
