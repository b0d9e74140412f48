"""The normalization layers of a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from bln_search.core.configuration import InferenceConfiguration, Method, all_configurations, mini_batch_configuration
from bln_search.core.errors import ModelError
from bln_search.core.words import Correction, PopulationEstimate
from bln_search.norms.examples import LayerPopulations
from bln_search.norms.gathering import GatheredMoments
from bln_search.norms.layer import Normalization

Gathered = Mapping[PopulationEstimate, Mapping[str, GatheredMoments]]
"""For each estimate, what each layer gathered, by the layer's name in its network."""


def find_norms(network: nn.Module) -> dict[str, Normalization]:
    """Every normalization layer of `network` by name. Raises ModelError where there is none."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, Normalization)}
    if not layers:
        raise ModelError(
            f"this {type(network).__name__} has no normalization layer of bln_search: build it with BLN, BN or LN, "
            "or convert the BatchNorm and LayerNorm layers it has with bln_search.convert(model)"
        )
    return layers


def network_method(layers: Mapping[str, Normalization]) -> Method:
    """The method whose configurations cover every layer: BN or LN where all are, else BLN."""
    methods = {layer.method for layer in layers.values()}
    return methods.pop() if len(methods) == 1 else Method.BLN


def network_configurations(layers: Mapping[str, Normalization]) -> tuple[InferenceConfiguration, ...]:
    """Every configuration that the layers of a network can tell apart."""
    return all_configurations(network_method(layers))


def network_populations(
    layers: Mapping[str, Normalization], gathered: Gathered, correction: Correction, *, per_slot: bool
) -> dict[Normalization, LayerPopulations]:
    """Each layer's population values under each estimate; a layer that was never reached has none."""
    return {
        layer: {
            estimate: layer.population(moments[name], correction, per_slot=per_slot)
            for estimate, moments in gathered.items()
        }
        for name, layer in layers.items()
        if all(name in moments for moments in gathered.values())
    }


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """While this context is open `network` is in evaluation mode; each module then goes back to the mode it was in."""
    before = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def mini_batch_statistics(layers: Iterable[Normalization]) -> Iterator[None]:
    """While this context is open every statistic comes from the mini-batch, as in training."""
    before = {layer: layer.configuration for layer in layers}
    for layer in before:
        layer.configuration = mini_batch_configuration(layer.method)
    try:
        yield
    finally:
        for layer, configuration in before.items():
            layer.configuration = configuration
