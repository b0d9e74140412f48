"""The space of per-layer configurations of a network: the defined options of each layer, and which layers are tied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import prod

from bln_search.core.blend import PopulationWeight, blended_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import LayerScope, PopulationEstimate, UngroupedLayers
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import ConfigurationSpace, LayerConfigurationOptions
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.split_evaluation import find_undefined_reason
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork
from bln_search.norms import Normalization
from bln_search.norms.network.layers import list_possible_configurations
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score

ExcludedOptions = Mapping[str, Mapping[str, str]]
"""For each choice, the undefined options, each with its reason."""

_OTHER_LAYERS = "other layers"
"""Name of the choice of the layers that no group names, where they share one."""


@dataclass(frozen=True)
class PerLayerEvaluatorOptions:
    """Options of an evaluator of per-layer configurations.

    Attributes:
        estimate: the population estimate; None where none was estimated.
        scope: which layers are tied; see `build_space_and_excluded_options`.
        groups: patterns of layer names; see `build_space_and_excluded_options`.
        others: treatment of layers that no group names; see `build_space_and_excluded_options`.
        score: per-example losses and correctness from outputs and targets. Several threads may call it, and the
            network, at once.
        memory_limit: bytes of the largest tensors of a traversal, of all threads together, and of the cache; a few
            such tensors are alive at once.
    """

    estimate: str | None = PopulationEstimate.FROZEN
    scope: LayerScope = LayerScope.PER_LAYER
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    others: UngroupedLayers = UngroupedLayers.FREE
    score: Score = cross_entropy_and_correctness
    memory_limit: int = MEMORY_LIMIT


def make_inference_row(
    configuration: InferenceConfiguration, estimate: str | None, blend: PopulationWeight | None = None
) -> InferenceRow:
    """Return the configuration of a layer with the estimate, where it uses one.

    Args:
        configuration: of the layer.
        estimate: the population estimate; None where none was estimated.
        blend: weight of the population in blended statistics of this layer.
    """
    if estimate is None or not configuration.uses_population:
        return InferenceRow(configuration, None)
    if blend is None or not configuration.uses_blend:
        return InferenceRow(configuration, estimate)
    return InferenceRow(configuration, blended_estimate_label(estimate, blend))


def build_space_and_excluded_options(
    network: SegmentedNetwork,
    populations: Populations,
    estimate: str | None,
    batch_size: int,
    *,
    scope: LayerScope = LayerScope.PER_LAYER,
    groups: Mapping[str, Sequence[str]] | None = None,
    others: UngroupedLayers = UngroupedLayers.FREE,
) -> tuple[ConfigurationSpace, ExcludedOptions]:
    """Return the configuration space of a network, and the options that are undefined.

    Args:
        network: its normalization layers.
        populations: population values of each layer under each estimate.
        estimate: the population estimate; None where none was estimated.
        batch_size: the inference mini-batch size.
        scope: which layers are tied.
        groups: for the scope `groups`, patterns of layer names (`features.*`) by the name of the group.
        others: for the scope `groups`, whether each layer that matches no pattern is a choice of its own, all of them
            are one choice, or each keeps its present configuration.

    Raises:
        ModelError: a choice has no defined option, a pattern matches no layer, or a layer matches two groups.
    """
    tied = _layer_indices_by_choice(network.names, scope, groups or {}, others)
    kept = set(list_ungrouped_layer_names(network.names, groups or {})) if others is UngroupedLayers.AS_IS else set()
    choices: list[LayerConfigurationOptions] = []
    excluded: dict[str, dict[str, str]] = {}
    for name, indices in tied.items():
        layers = {network.names[index]: network.layers[index] for index in indices}
        options: list[tuple[InferenceConfiguration, ...]] = []
        for configuration in _possible_configurations(layers, is_fixed=name in kept):
            codes = tuple(configuration.restricted_to_statistics_of(layer.method) for layer in layers.values())
            reason = _find_undefined_reason(list(layers.values()), codes, populations, estimate, batch_size)
            if reason is None:
                options.append(codes)
            else:
                excluded.setdefault(name, {})[str(configuration)] = reason
        if not options:
            raise ModelError(f"{name} has no defined option: {next(iter(excluded[name].values()))}")
        choices.append(
            LayerConfigurationOptions(name, tuple(indices), tuple(dict.fromkeys(options)), is_fixed=name in kept)
        )
    return ConfigurationSpace(network.names, tuple(choices)), excluded


def compute_space_size_with_all_options(
    network: SegmentedNetwork, scope: LayerScope, groups: Mapping[str, Sequence[str]] | None = None
) -> int:
    """Return the size of the space with all options. Raises ModelError as `build_space_and_excluded_options`."""
    tied = _layer_indices_by_choice(network.names, scope, groups or {}).values()
    choices = [{network.names[index]: network.layers[index] for index in indices} for indices in tied]
    return prod(len(list_possible_configurations(layers)) for layers in choices)


def _find_undefined_reason(
    layers: Sequence[Normalization],
    codes: Sequence[InferenceConfiguration],
    populations: Populations,
    estimate: str | None,
    batch_size: int,
) -> str | None:
    for layer, code in zip(layers, codes, strict=True):
        estimates = populations.get(layer, {})
        if not estimates.keys() >= set(code.estimates_named_by_letters):
            return "the network kept no memory of mini-batches"
        if code.uses_population and (estimate is None or estimate not in estimates):
            return "no population was estimated"
        reason = find_undefined_reason(make_inference_row(code, estimate, layer.blend), {layer: estimates}, batch_size)
        if reason is not None:
            return reason
    return None


def _possible_configurations(
    layers: Mapping[str, Normalization], *, is_fixed: bool
) -> tuple[InferenceConfiguration, ...]:
    if is_fixed:
        return tuple(layer.configuration for layer in layers.values())
    return list_possible_configurations(layers)


def list_ungrouped_layer_names(names: Iterable[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of the layers that no group names.

    Raises:
        ModelError: a pattern matches no layer, or a layer matches two groups.
    """
    return [name for name, group in _group_by_layer(list(names), groups).items() if group is None]


def _layer_indices_by_choice(
    names: Sequence[str],
    scope: LayerScope,
    groups: Mapping[str, Sequence[str]],
    others: UngroupedLayers = UngroupedLayers.FREE,
) -> dict[str, list[int]]:
    if scope is LayerScope.GLOBAL:
        return {"all layers": list(range(len(names)))}
    if scope is LayerScope.PER_LAYER:
        return {name: [index] for index, name in enumerate(names)}
    tied: dict[str, list[int]] = {}
    for index, (name, group) in enumerate(_group_by_layer(names, groups).items()):
        own_choice = _OTHER_LAYERS if others is UngroupedLayers.SHARED else name
        if group is None and own_choice in groups:
            raise ModelError(
                f"a group has the name {own_choice!r}, which the choice of layers outside of it has: rename the group"
            )
        tied.setdefault(own_choice if group is None else group, []).append(index)
    return tied


def _group_by_layer(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    """Return the group of each layer, None without one. Raises ModelError as `list_ungrouped_layer_names`."""
    for group, patterns in groups.items():
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ModelError(
                    f"the pattern {pattern!r} of the group {group!r} matches no normalization layer; "
                    f"the network has {', '.join(names)}"
                )
    return {name: _find_group_of_layer(name, groups) for name in names}


def _find_group_of_layer(name: str, groups: Mapping[str, Sequence[str]]) -> str | None:
    matching = [group for group, patterns in groups.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if len(matching) > 1:
        raise ModelError(
            f"the layer {name} matches the groups {' and '.join(matching)}: a layer may match the patterns of one group"
        )
    return matching[0] if matching else None
