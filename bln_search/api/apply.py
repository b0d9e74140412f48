"""A configuration put into a network."""

from __future__ import annotations

from torch import nn

from bln_search.api.ranked import LayerPopulationsByName, RankedConfiguration
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.norms.finding import find_norms


def apply_configuration(network: nn.Module, choice: RankedConfiguration | InferenceConfiguration | str) -> nn.Module:
    """Make `network` use `choice` in evaluation mode, and return it.

    choice: a row of a ranked table, with its population values; or a configuration (`"FFFF"`), whose population
    values, where it reads any, the layers already have. The state dict keeps configuration and values.

    Raises ModelError for a network without normalization layers, other layers than were evaluated, or a configuration
    of another method; the network is then as it was.
    """
    layers = find_norms(network)
    if not isinstance(choice, RankedConfiguration):
        configuration = _parsed(choice) if isinstance(choice, str) else choice
        populations: LayerPopulationsByName = {}
    else:
        configuration, populations = choice.configuration, choice.populations
        if not populations.keys() <= layers.keys():
            different = sorted(populations.keys() - layers.keys())
            raise ModelError(f"this is another network than was evaluated: the layer {different[0]} is not in this one")
    before = {layer: layer.snapshot() for layer in layers.values()}
    try:
        for name, layer in layers.items():
            layer.configure(configuration, populations.get(name))
    except BaseException:
        for layer, snapshot in before.items():
            layer.restore(snapshot)
        raise
    return network


def _parsed(word: str) -> InferenceConfiguration:
    try:
        return InferenceConfiguration(word)
    except ValueError as error:
        raise ModelError(str(error)) from None
