"""What can be chosen in a network: the options of each layer that have a value, and which layers are tied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import LayerScope, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import Choice, ConfigurationSpace
from bln_search.evaluation.split import undefined_reason
from bln_search.evaluation.tree.segments import StagedNetwork
from bln_search.norms import Normalization
from bln_search.norms.network_layers import network_method
from bln_search.norms.row_tensor import Populations, Row

LeftOut = Mapping[str, Mapping[str, str]]
"""For each choice, the options without a value, each with its reason."""


def row_of(configuration: InferenceConfiguration, estimate: PopulationEstimate | None) -> Row:
    """A configuration with the estimate that it reads, if any."""
    return Row(configuration, estimate if configuration.uses_population else None)


def find_space(
    network: StagedNetwork,
    populations: Populations,
    estimate: PopulationEstimate | None,
    batch_size: int,
    *,
    scope: LayerScope = LayerScope.PER_LAYER,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> tuple[ConfigurationSpace, LeftOut]:
    """The space of a network under one population estimate at one inference mini-batch size, and what it leaves out.

    groups: for the scope `groups`, patterns of layer names (`features.*`) by the name of the group; a layer
    that none fits is chosen by itself. Raises ModelError where a choice has no option left, where a pattern fits no
    layer, or a layer two groups.
    """
    tied = _tied(network.names, scope, groups or {})
    choices: list[Choice] = []
    left_out: dict[str, dict[str, str]] = {}
    for name, places in tied.items():
        layers = {network.names[place]: network.layers[place] for place in places}
        kept: list[tuple[InferenceConfiguration, ...]] = []
        for word in all_configurations(network_method(layers)):
            words = tuple(word.restricted_to(layer.method) for layer in layers.values())
            reason = _reason(list(layers.values()), words, populations, estimate, batch_size)
            if reason is None:
                kept.append(words)
            else:
                left_out.setdefault(name, {})[str(word)] = reason
        if not kept:
            raise ModelError(f"{name} has no option with a value: {next(iter(left_out[name].values()))}")
        choices.append(Choice(name, tuple(places), tuple(dict.fromkeys(kept))))
    return ConfigurationSpace(network.names, tuple(choices)), left_out


def largest_size(network: StagedNetwork, scope: LayerScope, groups: Mapping[str, Sequence[str]] | None = None) -> int:
    """How many configurations there are if every option has a value. Raises ModelError as `find_space`."""
    tied = _tied(network.names, scope, groups or {}).values()
    layers = [{network.names[place]: network.layers[place] for place in places} for places in tied]
    return prod(len(all_configurations(network_method(one))) for one in layers)


def _reason(
    layers: Sequence[Normalization],
    words: Sequence[InferenceConfiguration],
    populations: Populations,
    estimate: PopulationEstimate | None,
    batch_size: int,
) -> str | None:
    for layer, word in zip(layers, words, strict=True):
        known = populations.get(layer, {})
        if word.uses_memory and PopulationEstimate.MEMORY not in known:
            return "the network kept no memory of mini-batches"
        if word.uses_population and (estimate is None or estimate not in known):
            return "no population was estimated"
        reason = undefined_reason(row_of(word, estimate), {layer: known}, batch_size)
        if reason is not None:
            return reason
    return None


def _tied(names: Sequence[str], scope: LayerScope, groups: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """For each choice its layers, in the order of the first."""
    if scope is LayerScope.GLOBAL:
        return {"all layers": list(range(len(names)))}
    if scope is LayerScope.PER_LAYER:
        return {name: [place] for place, name in enumerate(names)}
    for group, patterns in groups.items():
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ModelError(
                    f"the pattern {pattern!r} of the group {group!r} fits no normalization layer; "
                    f"the network has {', '.join(names)}"
                )
    tied: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        tied.setdefault(_group_of(name, groups), []).append(place)
    return tied


def _group_of(name: str, groups: Mapping[str, Sequence[str]]) -> str:
    fitting = [group for group, patterns in groups.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if len(fitting) > 1:
        raise ModelError(f"the layer {name} fits the groups {' and '.join(fitting)}: let their patterns share no layer")
    return fitting[0] if fitting else name
