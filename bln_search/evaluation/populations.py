"""The `frozen` population estimate."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from bln_search.core.configuration import mini_batch_configuration
from bln_search.core.errors import DataError
from bln_search.norms.finding import find_norms
from bln_search.norms.gathering import GatheredMoments, gathering


@torch.inference_mode()
def gather_frozen(network: nn.Module, inputs: Iterable[Tensor]) -> dict[str, GatheredMoments]:
    """What each normalization layer sees over training mini-batches with the weights as they are.

    The network runs in evaluation mode (no dropout), every statistic from the mini-batch, as BLN's Algorithm 2 has it.
    Mini-batches of another size than the first are left out. The network is left as it was.
    """
    layers = find_norms(network)
    before = {layer: layer.configuration for layer in layers.values()}
    training = network.training
    network.eval()
    for layer in layers.values():
        layer.configuration = mini_batch_configuration(layer.method)
    try:
        with gathering(layers.values()) as gatherers:
            for x in inputs:
                network(x)
    finally:
        network.train(training)
        for layer, configuration in before.items():
            layer.configuration = configuration
    empty = [name for name, layer in layers.items() if gatherers[layer].empty]
    if empty:
        raise DataError(
            f"no training mini-batch reached the normalization layer {empty[0]}: give at least one complete mini-batch"
        )
    return {
        name: gatherers[layer].moments(has_batch=layer.has_batch, has_feature=layer.has_feature)
        for name, layer in layers.items()
    }
