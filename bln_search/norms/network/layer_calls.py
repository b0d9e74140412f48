"""Observed calls of normalization layers, also of those whose network calls `layer.forward(x)`, which skips hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor

from bln_search.norms.normalization_base import NormalizationBase


@contextmanager
def observe_layer_calls(
    layers: Iterable[NormalizationBase], observe: Callable[[NormalizationBase, Tensor], None]
) -> Iterator[None]:
    """Call `observe` in this context with each of these layers and its input, before its forward pass.

    Copies of the layers that are made in the context are not observed.
    """
    watched = set(layers)
    outer = {layer: layer.observe_call for layer in watched}

    def observe_watched(layer: NormalizationBase, x: Tensor) -> None:
        if layer in watched:
            if (observe_too := outer[layer]) is not None:
                observe_too(layer, x)
            observe(layer, x)

    for layer in watched:
        layer.observe_call = observe_watched
    try:
        yield
    finally:
        for layer, previous in outer.items():
            if previous is None:
                del layer.observe_call
            else:
                layer.observe_call = previous


@contextmanager
def collect_called_layers(layers: Iterable[NormalizationBase]) -> Iterator[dict[NormalizationBase, None]]:
    """Collect those of these layers, not of copies, that forward passes call, in the order of their first call."""
    called: dict[NormalizationBase, None] = {}
    with observe_layer_calls(layers, lambda layer, _: called.setdefault(layer)):
        yield called
