"""Passes over inputs (G, N, D), in pieces of mini-batches whose intermediate results stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_PIECE = 2**18
"""Values that are computed together on a CPU."""


@dataclass(frozen=True)
class LinearOfScaledInput:
    """A linear layer without bias over (x − centre)·scale; K outputs.

    Attributes:
        centre: broadcasts against x (G, N, D).
        scale: broadcasts against x; None for one.
        weight: of the linear layer, (K, D).
    """

    centre: Tensor
    scale: Tensor | None
    weight: Tensor


def compute_linear_in_pieces(x: Tensor, layers: Sequence[LinearOfScaledInput], *, classes_first: bool) -> list[Tensor]:
    """Return the outputs of linear layers over inputs (G, N, D), each (K, G, N) or (G, N, K).

    Args:
        x: the inputs.
        layers: linear layers; those with the same tensor as centre share the centred input.
        classes_first: whether the K outputs are on the first axis; otherwise on the last.
    """
    groups, size, _ = x.shape
    outputs = [
        x.new_empty((len(layer.weight), groups * size) if classes_first else (groups * size, len(layer.weight)))
        for layer in layers
    ]
    ordered = sorted(zip(layers, outputs, strict=True), key=lambda layer_and_output: id(layer_and_output[0].centre))
    centred_buffer, scaled_buffer = _empty_piece(x), _empty_piece(x)
    for piece in _iter_pieces(x):
        inputs = x[piece]
        centred, scaled = centred_buffer[: len(inputs)], scaled_buffer[: len(inputs)]
        examples = slice(piece.start * size, piece.start * size + len(inputs) * size)
        centre = None
        for layer, out in ordered:
            if layer.centre is not centre:
                centre = layer.centre
                torch.sub(inputs, _cut(centre, piece), out=centred)
            values = centred
            if layer.scale is not None:
                values = torch.mul(centred, _cut(layer.scale, piece), out=scaled)
            matrix = values.view(-1, x.shape[2])
            if classes_first:
                torch.mm(layer.weight, matrix.t(), out=out[:, examples])
            else:
                torch.mm(matrix, layer.weight.t(), out=out[examples])
    shape = (-1, groups, size) if classes_first else (groups, size, -1)
    return [output.view(shape) for output in outputs]


def compute_means_and_variances(x: Tensor, axes: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Return mean and variance (divided by the count, Eq. 10-13) of x (G, N, D) over each of these axes, kept.

    Args:
        x: the inputs.
        axes: 1 for the examples of each mini-batch, 2 for the features of each example.
    """
    moments = [(_empty_statistic(x, axis), _empty_statistic(x, axis)) for axis in axes]
    buffer = _empty_piece(x)
    for piece in _iter_pieces(x):
        inputs = x[piece]
        for axis, (means, variances) in zip(axes, moments, strict=True):
            mean = torch.mean(inputs, axis, keepdim=True, out=means[piece])
            centred = torch.sub(inputs, mean, out=buffer[: len(inputs)])
            if axis == 2:  # norms of contiguous values take less time
                norm = torch.linalg.vector_norm(centred, dim=axis, keepdim=True, out=variances[piece])
                norm.square_().div_(x.shape[axis])
            else:
                torch.mean(centred.mul_(centred), axis, keepdim=True, out=variances[piece])
    return moments


def _iter_pieces(x: Tensor) -> Iterator[slice]:
    """Yield the mini-batches of each piece of x (G, N, D)."""
    step = _mini_batches_of_piece(x)
    for start in range(0, len(x), step):
        yield slice(start, start + step)


def _empty_piece(x: Tensor) -> Tensor:
    """Return memory for a piece of x (G, N, D)."""
    return x.new_empty(min(len(x), _mini_batches_of_piece(x)), *x.shape[1:])


def _empty_statistic(x: Tensor, axis: int) -> Tensor:
    """Return memory for a statistic of x over `axis`, kept at length one."""
    return x.new_empty([1 if index == axis else extent for index, extent in enumerate(x.shape)])


def _mini_batches_of_piece(x: Tensor) -> int:
    return max(1, len(x) if x.device.type != "cpu" else _PIECE // max(1, x[0].numel()))


def _cut(value: Tensor, piece: slice) -> Tensor:
    """Return a value that broadcasts against x (G, N, D) for the mini-batches of a piece."""
    return value[piece] if value.ndim == 3 and len(value) > 1 else value
