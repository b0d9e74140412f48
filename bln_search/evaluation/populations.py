"""The `frozen` population estimate."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from bln_search.core.errors import DataError
from bln_search.norms.moment_collection import GatheredMoments, Gatherer, gathering
from bln_search.norms.network_layers import evaluation_mode, find_norms, mini_batch_statistics


@torch.no_grad()
def gather_frozen(network: nn.Module, inputs: Iterable[Tensor]) -> dict[str, GatheredMoments]:
    """What each normalization layer sees over training mini-batches with the weights as they are.

    The network runs in evaluation mode (no dropout), every statistic from the mini-batch, as BLN's Algorithm 2 has it.
    Mini-batches smaller than the largest are left out, as are layers that the network does not use in evaluation. The
    network is left as it was. Warns (UserWarning) where more mini-batches are left out than are not.
    """
    layers = find_norms(network)
    with (
        evaluation_mode(network),
        mini_batch_statistics(layers.values()),
        gathering(layers.values(), in_evaluation=True) as gatherers,
    ):
        for name, layer in layers.items():
            gatherers[layer].name = name
        for x in inputs:
            network(x.clone())
    reached = {name: layer for name, layer in layers.items() if not gatherers[layer].empty}
    if not reached:
        raise DataError(
            "no training mini-batch reached a normalization layer: give at least one complete mini-batch, to a network "
            "whose forward pass calls its layers themselves and not modules they have replaced"
        )
    _warn_of_few(next(gatherers[layer] for layer in reached.values()))
    return {
        name: gatherers[layer].moments(has_batch=layer.has_batch, has_feature=layer.has_feature)
        for name, layer in reached.items()
    }


def _warn_of_few(gatherer: Gatherer) -> None:
    if gatherer.counted < gatherer.seen - gatherer.counted:
        warnings.warn(
            f"the population is that of {gatherer.counted} of {gatherer.seen} training mini-batches, those of "
            f"{gatherer.batch_size} examples: smaller ones are left out; give mini-batches of one size",
            stacklevel=2,
        )
