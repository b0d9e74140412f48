"""A configuration put into a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from bln_search.api.layered import LayeredConfiguration
from bln_search.api.ranked import LayerPopulationsByName, RankedConfiguration
from bln_search.core.configuration import InferenceConfiguration, Source
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import SEPARATOR, PerLayerConfiguration
from bln_search.evaluation.tree.segments import staged
from bln_search.evaluation.tree.tracing import NotFollowedError
from bln_search.norms import Normalization
from bln_search.norms.network_layers import evaluation_mode, find_norms

Choice = RankedConfiguration | LayeredConfiguration | PerLayerConfiguration | InferenceConfiguration | str


def apply_configuration(network: nn.Module, choice: Choice) -> nn.Module:
    """Make `network` use `choice` in evaluation mode, and return it.

    choice: a row of a ranked table, with its population values; or a configuration (`"FFFF"`), for each layer its own
    (`"TTFF.FFFF"`, in the order in which the network reaches them, as in tables of `search_layers`) or one for all,
    whose population values, where it reads any, the layers already have. The state dict keeps configuration and values.

    Raises ModelError for a network without normalization layers, other layers than were evaluated, a configuration of
    another method, or one whose population values no layer has; the network is then as it was.
    """
    layers = find_norms(network)
    words, populations = _words(choice, network, list(layers))
    different = sorted((words.keys() | populations.keys()) - layers.keys())
    if different:
        raise ModelError(f"this is another network than was evaluated: the layer {different[0]} is not in this one")
    before = {layer: layer.snapshot() for layer in layers.values()}
    try:
        for name, word in words.items():
            layers[name].configure(word, populations.get(name))
        _check_values(layers.values())
    except BaseException:
        for layer, snapshot in before.items():
            layer.restore(snapshot)
        raise
    return network


def _check_values(layers: Iterable[Normalization]) -> None:
    """Raise ModelError where no layer has the population values that it reads."""
    readers = [(layer, missing) for layer in layers if (missing := _missing(layer)) is not None]
    if readers and all(missing for _, missing in readers):
        layer, missing = readers[0]
        raise ModelError(
            f"{layer.configuration} reads {', '.join(missing)} from the population, and no layer of this network was "
            "given such values: apply a row of a ranked table, as in apply_configuration(network, ranked.recommended)"
        )


def _missing(layer: Normalization) -> list[str] | None:
    """The population values that a layer reads and does not have; None where it reads none."""
    sources = {statistic: layer.configuration.source(statistic) for statistic in layer.method.statistics}
    read = [one for one, source in sources.items() if source in (Source.POPULATION, Source.MEMORY)]
    return [str(one) for one in read if not layer.is_configured(one, sources[one])] if read else None


def _words(
    choice: Choice, network: nn.Module, names: Sequence[str]
) -> tuple[dict[str, InferenceConfiguration], LayerPopulationsByName]:
    """The word of each layer, and the population values that come with them."""
    if isinstance(choice, LayeredConfiguration):
        return dict(zip(choice.layers, choice.configuration.words, strict=True)), choice.populations
    if isinstance(choice, RankedConfiguration):
        return {name: choice.of_layer(name) for name in names}, choice.populations
    if not isinstance(choice, PerLayerConfiguration | InferenceConfiguration | str):
        raise ModelError(
            f"a {type(choice).__name__} is no choice: give a row of a table, as in ranked.recommended or ranked[0], "
            'or a configuration, as in "FFFF"'
        )
    parsed = _parsed(choice) if isinstance(choice, str) else choice
    if isinstance(parsed, InferenceConfiguration):
        return dict.fromkeys(names, parsed), {}
    names = _in_order(network, names, parsed)
    if len(parsed.words) != len(names):
        raise ModelError(
            f"{parsed} has {len(parsed.words)} words, the network {len(names)} normalization layers: {', '.join(names)}"
        )
    return dict(zip(names, parsed.words, strict=True)), {}


def _in_order(network: nn.Module, names: Sequence[str], words: PerLayerConfiguration) -> Sequence[str]:
    """The layers in the order in which the network reaches them; as they are defined where all words are alike.

    Raises ModelError where the order cannot be known without a forward pass, and matters.
    """
    try:
        with evaluation_mode(network):
            return staged(network).names
    except NotFollowedError as error:
        if words.uniform:
            return names
        raise ModelError(
            f"in which order this {type(network).__name__} reaches its normalization layers is not known, so {words} "
            "cannot be put into them: apply what search_layers found, as in apply_configuration(network, layered.best) "
            f"or layered.of(configuration), which name their layers ({error})"
        ) from error
    except ModelError:
        return names


def _parsed(word: str) -> PerLayerConfiguration | InferenceConfiguration:
    try:
        return PerLayerConfiguration.parse(word) if SEPARATOR in word else InferenceConfiguration(word)
    except ValueError as error:
        raise ModelError(str(error)) from None
