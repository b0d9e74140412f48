"""Library networks for `bench.zoo` with their data: run in training mode for their running statistics and converted."""

from __future__ import annotations

import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench.support.relative_difference import largest_relative_difference
from bench.support.zoo.networks import NETWORKS, Examples, Subject
from bln_search.api.arguments import MethodName
from bln_search.api.convert import convert

BATCHES, FEW_BATCHES = 4, 2
"""Numbers of mini-batches whose losses are compared: in single precision, and in double precision and by the search."""


@dataclass(frozen=True)
class Setting:
    """Setting of a network.

    Attributes:
        network: Name of the network.
        method: Method of `convert`.
        batch_size: Mini-batch size in training and inference.
        pixels: Side of an image.
    """

    network: str
    method: MethodName
    batch_size: int
    pixels: int


@dataclass(frozen=True)
class Prepared:
    """A converted network and its data.

    Attributes:
        network: The network.
        training: Training mini-batches.
        validation: Validation mini-batches.
        layers: Number of normalization layers by kind.
        changed: Relative difference of its outputs after the conversion; None for a conversion to another method.
    """

    network: nn.Module
    training: list[Examples]
    validation: list[Examples]
    layers: str
    changed: float | None

    def in_double(self) -> Prepared:
        """Return a copy in double precision."""
        validation = [(cast(x, torch.float64), y) for x, y in self.validation]
        return Prepared(deepcopy(self.network).double(), self.training, validation, self.layers, self.changed)


def prepare(setting: Setting, dtype: torch.dtype) -> Prepared:
    """Build a network, run it in training mode and convert it; return it with training and validation data."""
    torch.manual_seed(0)
    subject = NETWORKS[setting.network]
    network = subject.make(setting.pixels).to(dtype)
    layers = count_layers(network)
    training, validation = (draw_batches(subject, setting, BATCHES, dtype) for _ in range(2))
    inputs, _ = validation[0]
    with torch.no_grad():
        for x, _ in training:
            network.train()(x)
        scale_head(network.eval(), inputs)
        before = network(inputs).numpy()
        convert_in_place(network, setting)
        after = network.eval()(inputs).numpy()
        scale_head(network, inputs)
    return Prepared(
        network,
        training,
        validation,
        layers,
        largest_relative_difference(after, before) if setting.method == "same" else None,
    )


def scale_head(network: nn.Module, inputs: Tensor) -> None:
    """Scale the last layer to outputs of standard deviation 1: small outputs would hide differences of losses."""
    head = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1]
    factor = 1 / float(network(inputs).std())
    for parameter in head.parameters():
        parameter.mul_(factor)


def convert_in_place(network: nn.Module, setting: Setting) -> None:
    """Convert a network in place. Ignores the warning that converted networks with running statistics need training."""
    with warnings.catch_warnings():
        if setting.method == "bln":
            warnings.simplefilter("ignore", UserWarning)
        convert(network, method=setting.method, batch_size=setting.batch_size)


def count_layers(network: nn.Module) -> str:
    """Return the number of normalization layers by kind."""
    names = {nn.BatchNorm1d: "BN", nn.BatchNorm2d: "BN", nn.LayerNorm: "LN"}
    counts = Counter(names[type(module)] for module in network.modules() if type(module) in names)
    return " + ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def draw_batches(subject: Subject, setting: Setting, batches: int, dtype: torch.dtype) -> list[Examples]:
    """Return mini-batches of random examples."""
    inputs, targets = subject.draw(setting.batch_size * batches, setting.pixels)
    size = setting.batch_size
    return list(zip(torch.split(cast(inputs, dtype), size), torch.split(targets, size), strict=True))


def cast(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return inputs in another precision; token ids are unchanged."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs
