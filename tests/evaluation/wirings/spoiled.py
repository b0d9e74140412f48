"""Data that causes numerical problems, and loaders with unusual behaviour."""

from __future__ import annotations

import torch
from torch import nn

from tests.evaluation.wirings.building import (
    CLASSES,
    Wiring,
    linear,
    mlp,
    module,
    normal,
    stack,
)


class BufferReusingLoader:
    """A loader that yields the same buffers with new content."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        sizes = {len(x) for x, _ in self.batches}
        buffers = {size: (torch.empty_like(x), torch.empty_like(y)) for size in sizes for x, y in [self.of(size)]}
        for x, y in self.batches:
            inputs, targets = buffers[len(x)]
            inputs.copy_(x)
            targets.copy_(y)
            yield inputs, targets

    def of(self, size):
        return next(batch for batch in self.batches if len(batch[0]) == size)


def spoiled(value):
    """Return a function that replaces one value of the last validation mini-batch."""

    def spoil(x):
        x = x.clone()
        x[11, 2] = value
        return x

    return spoil


FIRST_NORM = stack(normal(7), linear(7, 6), module(nn.Tanh), normal(6), linear(6, CLASSES))

SPOILED = {
    "one buffer refilled": Wiring(lambda norm: mlp(norm, "bln", "bln"), loader=BufferReusingLoader),
    # near 1e9, the resolution of float64 is 1e-7, and the mean of the mini-batch is of that order
    "a value of 1e9": Wiring(FIRST_NORM, spoil=spoiled(1e9), tolerance=1e-9),
    "an infinite value": Wiring(FIRST_NORM, spoil=spoiled(float("inf"))),
    "a value that is not a number": Wiring(FIRST_NORM, spoil=spoiled(float("nan"))),
    "total, inputs far from zero": Wiring(FIRST_NORM, prepare=lambda x: x + 1e4, correction="total"),
    "memory, inputs far from zero": Wiring(
        stack(normal(7, "mbn"), linear(7, CLASSES)), prepare=lambda x: x + 1e4, steps=6
    ),
    "short first training mini-batch": Wiring(
        lambda norm: mlp(norm, "bln"), train=(3, 5, 5, 5), may_refuse="first .*mini-batch|sizes"
    ),
}
