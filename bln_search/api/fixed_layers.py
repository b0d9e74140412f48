"""Layers that keep their configuration in a per-layer search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bln_search.core.enums import PopulationEstimate, UngroupedLayers
from bln_search.core.errors import ModelError
from bln_search.evaluation.tree.configuration_space import list_ungrouped_layer_names
from bln_search.norms import Normalization
from bln_search.norms.network.stored_values import find_stored_population, missing_stored_statistics
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import LayerPopulations


def find_fixed_layers(
    layers: Mapping[str, Normalization], groups: Mapping[str, Sequence[str]] | None, others: UngroupedLayers
) -> dict[str, Normalization]:
    """The layers that keep their configuration, by name.

    Raises:
        ValueError: `others` is not `free`, and there is no group.
        ModelError: A pattern matches no layer, a layer matches two groups, or a layer that keeps its configuration
            lacks a value that it reads.
    """
    if others is not UngroupedLayers.FREE and groups is None:
        raise ValueError(
            f'others="{others}" is about the layers that no group names: name the layers to search in groups, as in '
            'groups={"last": ["layer4.*"]}'
        )
    ungrouped = [] if groups is None else list_ungrouped_layer_names(layers, groups)
    kept = {name: layers[name] for name in ungrouped if others is UngroupedLayers.AS_IS}
    for name, layer in kept.items():
        missing = missing_stored_statistics(layer)
        if missing:
            raise ModelError(
                f'others="as_is": the layer {name} has configuration {layer.configuration} and no value of '
                f"{', '.join(missing)}: apply a row of a ranked table first, or search this layer too"
            )
    return kept


def stored_populations_of_fixed_layers(
    kept: Mapping[str, Normalization], estimate: PopulationEstimate
) -> dict[NormalizationBase, LayerPopulations]:
    """The values that layers keep, as their population of the estimate that is searched, and of those of letters."""
    stored = {layer: find_stored_population(layer) for layer in kept.values()}
    return {
        layer: dict.fromkeys((estimate, *layer.configuration.estimates_named_by_letters), population)
        for layer, population in stored.items()
        if population is not None
    }
