"""The recurrence of an LSTM over all time steps, forward and backward written out.

Gates in the order o, f, i, g of the axis of length 4H, so that the three sigmoids lie side by side, and so do the three
gates that the cell's gradient reaches. With z_t = x'_t + W_h (m ⊙ h_{t-1}), x' the input's share of all steps and m a
dropout mask that is the same at every step:

    c_t = σ(f_t) c_{t-1} + σ(i_t) tanh(g_t),    h_t = σ(o_t) tanh(c_t)

Source: Ba, Kiros & Hinton 2016, Eq. 17-19 (Hochreiter & Schmidhuber 1997); one mask over time: Gal & Ghahramani 2016.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def run_lstm(projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """Every h_t, (T, N, H), from the input's share (T, N, 4H), W_h (4H, H) and a mask (N, H) or None; h_0 = c_0 = 0."""
    if torch.compiler.is_exporting():
        return _traced(projected, weight, mask)
    if torch.is_grad_enabled() and (projected.requires_grad or weight.requires_grad):
        hidden: Tensor = _Lstm.apply(projected, weight, mask)[0]  # type: ignore[no-untyped-call]
        return hidden
    return _inference(projected, weight, mask)


def _inference(projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """The same without anything kept for a backward pass."""
    steps, n, width = projected.shape
    units = width // 4
    hidden = projected.new_empty(steps, n, units)
    cell = projected.new_zeros(n, units)
    gates = torch.empty_like(projected[0], memory_format=torch.contiguous_format)
    sigmoids, candidate = gates[:, : 3 * units], gates[:, 3 * units :]
    out, forget, write, new = gates.view(n, 4, units).unbind(1)
    transposed = weight.t()
    before: Tensor | None = None
    for given, now in zip(projected.unbind(), hidden.unbind(), strict=True):
        if before is None:
            gates.copy_(given)
        else:
            torch.addmm(given, before if mask is None else before * mask, transposed, out=gates)
        sigmoids.sigmoid_()
        candidate.tanh_()
        cell.mul_(forget).addcmul_(write, new)
        torch.tanh(cell, out=now)
        now.mul_(out)
        before = now
    return hidden


def _traced(projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """The same with nothing written in place, so that `torch.export` follows it for every mini-batch size."""
    units = weight.shape[1]
    before = cell = torch.zeros_like(projected[0, :, :units])
    hidden = []
    for given in projected.unbind():
        gates = given + F.linear(before if mask is None else before * mask, weight)
        out, forget, write = torch.sigmoid(gates[:, : 3 * units]).chunk(3, 1)
        cell = forget * cell + write * torch.tanh(gates[:, 3 * units :])
        before = out * torch.tanh(cell)
        hidden.append(before)
    return torch.stack(hidden)


class _Lstm(torch.autograd.Function):
    """`run_lstm` with its gradients; beside the hidden states it answers what these need."""

    @staticmethod
    def forward(
        projected: Tensor, weight: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        steps, n, width = projected.shape
        units = width // 4
        gates = projected.clone(memory_format=torch.contiguous_format)
        cells, squashed, hidden = (projected.new_empty(steps, n, units) for _ in range(3))
        masked = hidden if mask is None else torch.empty_like(hidden)
        transposed = weight.t()
        of_step = zip(
            gates.unbind(),
            gates[:, :, : 3 * units].unbind(),
            gates[:, :, 3 * units :].unbind(),
            *(gate.unbind() for gate in gates.view(steps, n, 4, units).unbind(2)),
            cells.unbind(),
            squashed.unbind(),
            hidden.unbind(),
            masked.unbind(),
            strict=True,
        )
        recalled = before = None
        for now, sigmoids, candidate, out, forget, write, new, cell, curved, result, kept in of_step:
            if recalled is not None:
                now.addmm_(recalled, transposed)
            sigmoids.sigmoid_()
            candidate.tanh_()
            torch.mul(write, new, out=cell)
            if before is not None:
                cell.addcmul_(forget, before)
            torch.tanh(cell, out=curved)
            torch.mul(out, curved, out=result)
            if mask is not None:
                torch.mul(result, mask, out=kept)
            recalled, before = kept, cell
        return hidden, gates, cells, squashed, None if mask is None else masked

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Apart from `forward`, so that the transforms of `torch.func` take this function."""
        _, weight, mask = inputs
        hidden, *kept, masked = output
        ctx.mark_non_differentiable(*kept, *(() if masked is None else (masked,)))
        ctx.save_for_backward(*kept, hidden if masked is None else masked, weight, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_unused: Any) -> tuple[Tensor, Tensor, None]:
        gates, cells, squashed, masked, weight, mask = ctx.saved_tensors
        steps, n, width = gates.shape
        units = width // 4
        out, forget, write, new = gates.view(steps, n, 4, units).unbind(2)
        of_gates = torch.empty_like(gates).view(steps, n, 4, units)
        _slopes(of_gates, cells, squashed, (out, forget, write, new))
        to_cell = (1 - squashed.square()).mul_(out)
        by_hidden = grad.clone(memory_format=torch.contiguous_format)
        by_cell = grad.new_zeros(n, units)
        of_step = zip(
            of_gates.view(steps, n, width).unbind(),
            of_gates[:, :, 0].unbind(),
            of_gates[:, :, 1:].unbind(),
            by_hidden.unbind(),
            to_cell.unbind(),
            forget.unbind(),
            strict=True,
        )
        through_cell = by_cell.unsqueeze(1)
        following: Tensor | None = None
        kept: Tensor | None = None
        for by_now, by_out, by_rest, by_result, slope, forgotten in reversed(list(of_step)):
            if following is not None and kept is not None:
                if mask is None:
                    by_result.addmm_(following, weight)
                else:
                    by_result.addcmul_(following @ weight, mask)
                by_cell.mul_(kept)
            by_cell.addcmul_(by_result, slope)
            by_out.mul_(by_result)
            by_rest.mul_(through_cell)
            following, kept = by_now, forgotten
        by_gates = of_gates.view(steps, n, width)
        by_weight = by_gates[1:].flatten(0, 1).t() @ masked[:-1].flatten(0, 1)
        return by_gates, by_weight, None


def _slopes(slopes: Tensor, cells: Tensor, squashed: Tensor, gates: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    """∂h_t/∂o_t and ∂c_t/∂(f, i, g)_t, before their nonlinearities, written into (T, N, 4, H)."""
    out, forget, write, new = gates
    torch.mul(squashed, out * (1 - out), out=slopes[:, :, 0])
    slopes[0, :, 1] = 0.0
    torch.mul(cells[:-1], (forget * (1 - forget))[1:], out=slopes[1:, :, 1])
    torch.mul(new, write * (1 - write), out=slopes[:, :, 2])
    torch.mul(write, 1 - new.square(), out=slopes[:, :, 3])
