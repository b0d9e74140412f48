"""The recurrence of an LSTM over all time steps, with an explicit backward pass.

The axis of length 4H holds the gates in the order o, f, i, g. So the three sigmoid gates are adjacent, and so are the
three gates that the gradient of the cell reaches. With z_t = (o, f, i, g)_t = x'_t + W_h (m ⊙ h_{t-1}), x' the input
part W_x x + b of all steps and m a dropout mask that is the same at every step:

    c_t = σ(f_t) c_{t-1} + σ(i_t) tanh(g_t),    h_t = σ(o_t) tanh(c_t)

Source: Ba, Kiros & Hinton 2016, Eq. 17-19 (Hochreiter & Schmidhuber 1997); one mask over time: Gal & Ghahramani 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def run_lstm(projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """Return all hidden states h_t, (T, N, H), with h_0 = c_0 = 0.

    Args:
        projected: x', the input part of all steps, (T, N, 4H).
        weight: W_h, (4H, H).
        mask: m, the dropout mask (N, H) of hidden states; None without dropout.
    """
    if torch.compiler.is_exporting():
        return _run_lstm_out_of_place(projected, weight, mask)
    if torch.is_grad_enabled() and (projected.requires_grad or weight.requires_grad):
        hidden: Tensor = _LstmAutogradFunction.apply(projected, weight, mask)[0]  # type: ignore[no-untyped-call]
        return hidden
    return _run_lstm_without_gradients(projected, weight, mask)


def _run_lstm_without_gradients(projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """Do the same as `run_lstm` without saving values for a backward pass."""
    steps, n, width = projected.shape
    units = width // 4
    hidden = projected.new_empty(steps, n, units)
    cell = projected.new_zeros(n, units)
    gates = torch.empty_like(projected[0], memory_format=torch.contiguous_format)
    sigmoid_gates, candidate = gates[:, : 3 * units], gates[:, 3 * units :]
    output_gate, forget_gate, input_gate, _ = gates.view(n, 4, units).unbind(1)
    transposed_weight = weight.t()
    previous: Tensor | None = None
    for input_part, current in zip(projected.unbind(), hidden.unbind(), strict=True):
        if previous is None:
            gates.copy_(input_part)
        else:
            torch.addmm(input_part, previous if mask is None else previous * mask, transposed_weight, out=gates)
        sigmoid_gates.sigmoid_()
        candidate.tanh_()
        cell.mul_(forget_gate).addcmul_(input_gate, candidate)
        torch.tanh(cell, out=current)
        current.mul_(output_gate)
        previous = current
    return hidden


def _run_lstm_out_of_place(projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """Do the same as `run_lstm` without in-place operations, so that `torch.export` supports any mini-batch size."""
    units = weight.shape[1]
    hidden = cell = torch.zeros_like(projected[0, :, :units])
    hidden_states = []
    for input_part in projected.unbind():
        gates = input_part + F.linear(hidden if mask is None else hidden * mask, weight)
        output_gate, forget_gate, input_gate = torch.sigmoid(gates[:, : 3 * units]).chunk(3, 1)
        cell = forget_gate * cell + input_gate * torch.tanh(gates[:, 3 * units :])
        hidden = output_gate * torch.tanh(cell)
        hidden_states.append(hidden)
    return torch.stack(hidden_states)


class _LstmAutogradFunction(torch.autograd.Function):
    """`run_lstm` with its gradients. It returns the hidden states and the values that the backward pass needs."""

    @staticmethod
    def forward(
        projected: Tensor, weight: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        steps, n, width = projected.shape
        units = width // 4
        gates = projected.clone(memory_format=torch.contiguous_format)
        cells, tanh_cells, hidden = (projected.new_empty(steps, n, units) for _ in range(3))
        masked_hidden = hidden if mask is None else torch.empty_like(hidden)
        transposed_weight = weight.t()
        views_by_step = zip(
            gates.unbind(),
            gates[:, :, : 3 * units].unbind(),
            gates[:, :, 3 * units :].unbind(),
            *(gate.unbind() for gate in gates.view(steps, n, 4, units).unbind(2)),
            cells.unbind(),
            tanh_cells.unbind(),
            hidden.unbind(),
            masked_hidden.unbind(),
            strict=True,
        )
        previous_masked = previous_cell = None
        for (
            step_gates,
            sigmoid_gates,
            candidate,
            output_gate,
            forget_gate,
            input_gate,
            _,
            cell,
            tanh_cell,
            step_hidden,
            step_masked,
        ) in views_by_step:
            if previous_masked is not None:
                step_gates.addmm_(previous_masked, transposed_weight)
            sigmoid_gates.sigmoid_()
            candidate.tanh_()
            torch.mul(input_gate, candidate, out=cell)
            if previous_cell is not None:
                cell.addcmul_(forget_gate, previous_cell)
            torch.tanh(cell, out=tanh_cell)
            torch.mul(output_gate, tanh_cell, out=step_hidden)
            if mask is not None:
                torch.mul(step_hidden, mask, out=step_masked)
            previous_masked, previous_cell = step_masked, cell
        return hidden, gates, cells, tanh_cells, None if mask is None else masked_hidden

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Save values for `backward`. It is separate from `forward`, as the transforms of `torch.func` require."""
        _, weight, mask = inputs
        hidden, *intermediates, masked_hidden = output
        ctx.mark_non_differentiable(*intermediates, *(() if masked_hidden is None else (masked_hidden,)))
        ctx.save_for_backward(*intermediates, hidden if masked_hidden is None else masked_hidden, weight, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_unused: Any) -> tuple[Tensor, Tensor, None]:
        """Return the gradients with respect to x', W_h and the mask (None)."""
        gates, cells, tanh_cells, masked_hidden, weight, mask = ctx.saved_tensors
        steps, n, width = gates.shape
        units = width // 4
        gate_views = gates.view(steps, n, 4, units).unbind(2)
        output_gate, forget_gate, *_ = gate_views
        # Holds the local derivatives first; the loop multiplies them in place into the gradients of the loss.
        grad_gates = torch.empty_like(gates).view(steps, n, 4, units)
        _write_gate_derivatives(grad_gates, cells, tanh_cells, gate_views)
        hidden_by_cell = (1 - tanh_cells.square()).mul_(output_gate)
        grad_hidden = grad.clone(memory_format=torch.contiguous_format)
        grad_cell = grad.new_zeros(n, units)
        views_by_step = zip(
            grad_gates.view(steps, n, width).unbind(),
            grad_gates[:, :, 0].unbind(),
            grad_gates[:, :, 1:].unbind(),
            grad_hidden.unbind(),
            hidden_by_cell.unbind(),
            forget_gate.unbind(),
            strict=True,
        )
        broadcast_grad_cell = grad_cell.unsqueeze(1)
        later_grad_gates: Tensor | None = None
        later_forget_gate: Tensor | None = None
        for (
            step_grad_gates,
            grad_output_gate,
            grad_cell_gates,
            step_grad_hidden,
            step_hidden_by_cell,
            step_forget_gate,
        ) in reversed(list(views_by_step)):
            if later_grad_gates is not None and later_forget_gate is not None:
                if mask is None:
                    step_grad_hidden.addmm_(later_grad_gates, weight)
                else:
                    step_grad_hidden.addcmul_(later_grad_gates @ weight, mask)
                grad_cell.mul_(later_forget_gate)
            grad_cell.addcmul_(step_grad_hidden, step_hidden_by_cell)
            grad_output_gate.mul_(step_grad_hidden)
            grad_cell_gates.mul_(broadcast_grad_cell)
            later_grad_gates, later_forget_gate = step_grad_gates, step_forget_gate
        grad_projected = grad_gates.view(steps, n, width)
        grad_weight = grad_projected[1:].flatten(0, 1).t() @ masked_hidden[:-1].flatten(0, 1)
        return grad_projected, grad_weight, None


def _write_gate_derivatives(out: Tensor, cells: Tensor, tanh_cells: Tensor, gates: Sequence[Tensor]) -> None:
    """Write ∂h_t/∂o_t and ∂c_t/∂(f, i, g)_t, with respect to the values before their nonlinearities.

    Args:
        out: (T, N, 4, H), written in place.
        cells: c_t, (T, N, H).
        tanh_cells: tanh(c_t), (T, N, H).
        gates: σ(o), σ(f), σ(i) and tanh(g) of all steps, each (T, N, H).
    """
    output_gate, forget_gate, input_gate, candidate = gates
    torch.mul(tanh_cells, output_gate * (1 - output_gate), out=out[:, :, 0])
    out[0, :, 1] = 0.0
    torch.mul(cells[:-1], (forget_gate * (1 - forget_gate))[1:], out=out[1:, :, 1])
    torch.mul(candidate, input_gate * (1 - input_gate), out=out[:, :, 2])
    torch.mul(input_gate, 1 - candidate.square(), out=out[:, :, 3])
