"""Evaluations between the epochs of a training, which goes on as without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from bln_search.api.convert import convert
from bln_search.evaluation.isolated_passes import RandomState, untouched_networks
from bln_search.norms import Normalization


@contextmanager
def undisturbed_training(network: nn.Module) -> Iterator[None]:
    """Restore at the end of this context what an evaluation of `network` may change. It has no autocast of accelerate.

    These are its modules, buffers and attributes, the mini-batch sizes of its normalization layers, and the random
    generators of torch, NumPy and Python. An evaluation does not write parameters, gradients or optimizers, and it
    restores the mode of each module.
    """
    generators = RandomState()
    sizes = [(layer, layer.batch_size) for layer in network.modules() if isinstance(layer, Normalization)]
    try:
        with untouched_networks([network]):
            _run_without_autocast(network)
            yield
    finally:
        for layer, size in sizes:
            layer.batch_size = size
        generators.restore()


def convert_unless_converted(network: nn.Module) -> nn.Module:
    """The network with configurations; layers that have none yet compute the same as before (`method="same"`).

    Raises:
        ModelError: There is no layer to convert.
    """
    if any(isinstance(module, Normalization) for module in network.modules()):
        return network
    return convert(network, method="same")


def _run_without_autocast(network: nn.Module) -> None:
    """Call the forward pass inside of that of accelerate, in the precision of the parameters."""
    original = vars(network).get("_original_forward")
    if original is not None:
        network.forward = original
