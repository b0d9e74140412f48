"""The space of per-layer configurations of a network: the defined options of each layer, and which layers are tied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import prod

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import LayerScope, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import Choice, ConfigurationSpace
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.scoring import Score, cross_entropy
from bln_search.evaluation.split import undefined_reason
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork
from bln_search.norms import Normalization
from bln_search.norms.network_layers import network_method
from bln_search.norms.row_batching.row_tensor import Populations, RowSpec

ExcludedOptions = Mapping[str, Mapping[str, str]]
"""For each choice, the undefined options, each with its reason."""


@dataclass(frozen=True)
class TreeOptions:
    """Options of an evaluator of per-layer configurations.

    Attributes:
        estimate: the population estimate; None where none was estimated.
        scope: which layers are tied; see `find_configuration_space`.
        groups: patterns of layer names; see `find_configuration_space`.
        score: per-example losses and correctness from outputs and targets.
        memory_limit: bytes of the largest tensor of a traversal, and of the cache; a few such tensors are alive at
            once.
    """

    estimate: str | None = PopulationEstimate.FROZEN
    scope: LayerScope = LayerScope.PER_LAYER
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    score: Score = cross_entropy
    memory_limit: int = MEMORY_LIMIT


def layer_row(configuration: InferenceConfiguration, estimate: str | None) -> RowSpec:
    """Return the configuration of a layer with the estimate, where it uses one."""
    return RowSpec(configuration, estimate if configuration.uses_population else None)


def find_configuration_space(
    network: SegmentedNetwork,
    populations: Populations,
    estimate: str | None,
    batch_size: int,
    *,
    scope: LayerScope = LayerScope.PER_LAYER,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> tuple[ConfigurationSpace, ExcludedOptions]:
    """Return the configuration space of a network, and the options that are undefined.

    Args:
        network: its normalization layers.
        populations: population values of each layer under each estimate.
        estimate: the population estimate; None where none was estimated.
        batch_size: the inference mini-batch size.
        scope: which layers are tied.
        groups: for the scope `groups`, patterns of layer names (`features.*`) by the name of the group; a layer that
            matches none is a choice of its own.

    Raises:
        ModelError: a choice has no defined option, a pattern matches no layer, or a layer matches two groups.
    """
    tied = _tied_layers(network.names, scope, groups or {})
    choices: list[Choice] = []
    excluded: dict[str, dict[str, str]] = {}
    for name, indices in tied.items():
        layers = {network.names[index]: network.layers[index] for index in indices}
        options: list[tuple[InferenceConfiguration, ...]] = []
        for configuration in all_configurations(network_method(layers)):
            codes = tuple(configuration.restricted_to(layer.method) for layer in layers.values())
            reason = _undefined_reason(list(layers.values()), codes, populations, estimate, batch_size)
            if reason is None:
                options.append(codes)
            else:
                excluded.setdefault(name, {})[str(configuration)] = reason
        if not options:
            raise ModelError(f"{name} has no defined option: {next(iter(excluded[name].values()))}")
        choices.append(Choice(name, tuple(indices), tuple(dict.fromkeys(options))))
    return ConfigurationSpace(network.names, tuple(choices)), excluded


def max_space_size(
    network: SegmentedNetwork, scope: LayerScope, groups: Mapping[str, Sequence[str]] | None = None
) -> int:
    """Return the size of the space if all options are defined. Raises ModelError as `find_configuration_space`."""
    tied = _tied_layers(network.names, scope, groups or {}).values()
    choices = [{network.names[index]: network.layers[index] for index in indices} for indices in tied]
    return prod(len(all_configurations(network_method(layers))) for layers in choices)


def _undefined_reason(
    layers: Sequence[Normalization],
    codes: Sequence[InferenceConfiguration],
    populations: Populations,
    estimate: str | None,
    batch_size: int,
) -> str | None:
    for layer, code in zip(layers, codes, strict=True):
        estimates = populations.get(layer, {})
        if code.uses_memory and PopulationEstimate.MEMORY not in estimates:
            return "the network kept no memory of mini-batches"
        if code.uses_population and (estimate is None or estimate not in estimates):
            return "no population was estimated"
        reason = undefined_reason(layer_row(code, estimate), {layer: estimates}, batch_size)
        if reason is not None:
            return reason
    return None


def _tied_layers(names: Sequence[str], scope: LayerScope, groups: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Return the indices of the layers of each choice, ordered by the first layer."""
    if scope is LayerScope.GLOBAL:
        return {"all layers": list(range(len(names)))}
    if scope is LayerScope.PER_LAYER:
        return {name: [index] for index, name in enumerate(names)}
    for group, patterns in groups.items():
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ModelError(
                    f"the pattern {pattern!r} of the group {group!r} matches no normalization layer; "
                    f"the network has {', '.join(names)}"
                )
    tied: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        tied.setdefault(_group_of(name, groups), []).append(index)
    return tied


def _group_of(name: str, groups: Mapping[str, Sequence[str]]) -> str:
    matching = [group for group, patterns in groups.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if len(matching) > 1:
        raise ModelError(
            f"the layer {name} matches the groups {' and '.join(matching)}: a layer may match the patterns of one group"
        )
    return matching[0] if matching else name
