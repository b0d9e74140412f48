"""The building blocks of wirings: a network with any kind of normalization layer, and its evaluation settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

CLASSES = 4


class Wired(nn.Module):
    """Modules, parameters and buffers by name, and a function that computes with them."""

    def __init__(self, wiring, **parts):
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.wiring = wiring

    def forward(self, x):
        return self.wiring(self, x)


@dataclass(frozen=True)
class Wiring:
    """A network and how it is evaluated.

    Attributes:
        build: builds the network, given a function that makes normalization layers.
        inputs: kind of the data: vectors, sequences, images or tokens.
        train: sizes of the training mini-batches.
        validation: sizes of the validation mini-batches.
        prepare: changes all inputs before they are split into mini-batches.
        spoil: changes inputs of the validation split only.
        loader: makes a loader from a list of mini-batches.
        sizes: inference mini-batch sizes; None for those of the validation loader.
        correction: of the population variance.
        per_slot: keep one feature value for each slot.
        steps: number of training steps before the evaluation.
        unreached: whether no training mini-batch reaches some layer.
        one_pass: pattern of the error of the one pass; None where it must succeed.
        per_layer: pattern of the error of the per-layer evaluation; None where it must succeed.
        may_refuse: pattern of an error that both evaluations may raise instead of returning losses.
        tolerance: relative and absolute, of a loss.
    """

    build: Callable[[Callable[..., nn.Module]], nn.Module]
    inputs: str = "vectors"
    train: tuple[int, ...] = (5, 5, 5, 5)
    validation: tuple[int, ...] = (5, 5, 3)
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None
    spoil: Callable[[torch.Tensor], torch.Tensor] | None = None
    loader: Callable[[list], Iterable] = list
    sizes: tuple[int, ...] | None = None
    correction: str = "bessel"
    per_slot: bool = False
    steps: int = 0
    unreached: bool = False
    one_pass: str | None = None
    per_layer: str | None = None
    may_refuse: str | None = None
    tolerance: float = 1e-10


def mlp(norm, *methods, activation=nn.Tanh):
    """Linear, norm and activation for each method, then a head."""
    layers, width = [], 7
    for method in methods or ("bln",):
        layers += [nn.Linear(width, 6), norm(6, method), activation()]
        width = 6
    return nn.Sequential(*layers, nn.Linear(6, CLASSES))


def behind(wiring, **parts):
    """Linear, norm, then `wiring` from (N, 6) to (N, 6), then a head."""
    return lambda norm: Wired(
        lambda net, x: net.head(wiring(net, net.norm(net.first(x)))),
        first=nn.Linear(7, 6),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
        **{name: part() for name, part in parts.items()},
    )


def branches(join, width=6):
    """Two normalized branches of one input, joined."""
    return lambda norm: Wired(
        lambda net, x: net.head(join(net.n(net.a(x)), net.k(net.b(x)))),
        a=nn.Linear(7, 6),
        b=nn.Linear(7, 6),
        n=norm(6),
        k=norm(6, "ln"),
        head=nn.Linear(width, CLASSES),
    )


def stack(*layers):
    """nn.Sequential of what each function of `norm` makes."""
    return lambda norm: nn.Sequential(*(layer(norm) for layer in layers))


def linear(a, b):
    return lambda _: nn.Linear(a, b)


def module(kind, *arguments, **options):
    return lambda _: kind(*arguments, **options)


def normal(features, method="bln", **options):
    return lambda norm: norm(features, method, **options)


def residual(inside):
    """x + inside(norm(x))."""
    return lambda norm: Wired(lambda net, x: x + net.inside(net.norm(x)), norm=norm(6), inside=inside(norm))


def first_of(kind, *arguments, **options):
    """A recurrent layer without its state."""
    return lambda _: Wired(lambda net, x: net.layer(x)[0], layer=kind(*arguments, batch_first=True, **options))


def function(run, **parts):
    return lambda _: Wired(lambda net, x: run(x), **parts)


MEAN, FLAT = function(lambda x: x.mean(1)), module(nn.Flatten)
