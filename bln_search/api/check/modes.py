"""Modes of modules within a context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from bln_search.api.check.layers import Layers, mini_batch_statistics


@contextmanager
def modes(modules: Iterable[nn.Module], *, training: bool) -> Iterator[None]:
    """Within this context modules have a mode, afterwards their own again."""
    saved = [(module, module.training) for module in modules]
    for module, _ in saved:
        module.training = training
    try:
        yield
    finally:
        for module, own in saved:
            module.training = own


@contextmanager
def evaluation_modes(network: nn.Module) -> Iterator[None]:
    """Within this context all modules are in evaluation mode."""
    with modes(network.modules(), training=False):
        yield


@contextmanager
def training_modes(network: nn.Module, layers: Layers) -> Iterator[None]:
    """Within this context all modules are in training mode; their statistics are restored."""
    with mini_batch_statistics(layers.values()), modes(network.modules(), training=True):
        yield
