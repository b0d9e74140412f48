"""Population estimates of a network from the loaders of a user, and the rows that read them."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence

from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.role_loader import Loader, RoleLoader
from bln_search.core.blend import POPULATION_NAME, PopulationWeight, blended_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, parse_enum
from bln_search.core.errors import DataError
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    list_possible_configurations,
    moments_by_estimate_from_training_history,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow


def parse_population_loaders(loader: Loader | Mapping[str, Loader]) -> Mapping[str, Loader]:
    """The loaders of the populations by name; a single loader is `frozen`.

    Raises:
        ValueError: There is no loader, a name is not possible, or it is that of an estimate of the layers' own.
    """
    if not isinstance(loader, Mapping):
        return {PopulationEstimate.FROZEN: loader}
    if not loader:
        raise ValueError("train_loader names no population: give at least one, as in {'source': train_loader}")
    reserved = [str(estimate) for estimate in PopulationEstimate if estimate is not PopulationEstimate.FROZEN]
    for name in loader:
        if not isinstance(name, str) or not POPULATION_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not the name of a population: use letters, digits, _ and -, beginning with a letter"
            )
        if name in reserved:
            raise ValueError(f"{name!r} is an estimate that layers collect in training: choose another name")
    return loader


def parse_blends(blends: Sequence[float | str]) -> tuple[PopulationWeight, ...]:
    """The weights of `blends`, each once.

    Raises:
        TypeError: It is not a sequence.
        ValueError: A weight is not possible.
    """
    if isinstance(blends, str) or not isinstance(blends, Sequence):
        raise TypeError(f'blends is a list of weights, as in [0.1, "N16"], not {blends!r}')
    return tuple(dict.fromkeys(PopulationWeight.parse(blend) for blend in blends))


def list_possible_inference_rows(
    layers: Mapping[str, Normalization], estimates: MomentsByEstimate, blends: Sequence[PopulationWeight] = ()
) -> list[InferenceRow]:
    """Every configuration, under each estimate of the statistics that it takes from the population, and blended.

    Args:
        layers: Layers of the network, by name.
        estimates: Moments of the layers by population.
        blends: Weights of the population in blended statistics.
    """
    statistics_by_estimate = {
        estimate: {statistic for name in moments for statistic in layers[name].method.statistics}
        for estimate, moments in estimates.items()
        if not _has_configuration_letter(estimate)
    }
    rows = []
    for configuration in list_possible_configurations(layers, from_weights=PopulationEstimate.ANALYTIC in estimates):
        if not estimates.keys() >= set(configuration.estimates_named_by_letters):
            continue
        if not configuration.uses_population:
            rows.append(InferenceRow(configuration, None))
            continue
        from_population = {
            statistic for statistic, source in configuration.source_by_statistic.items() if source.reads_population
        }
        for estimate, estimated in statistics_by_estimate.items():
            if from_population <= estimated:
                rows += _population_and_blend_rows(configuration, estimate, blends)
    return rows


def _has_configuration_letter(estimate: str) -> bool:
    """Do configurations read this estimate by a letter of its own?"""
    return any(estimate == own and own.has_own_source_letter for own in PopulationEstimate)


def _population_and_blend_rows(
    configuration: InferenceConfiguration, estimate: str, blends: Sequence[PopulationWeight]
) -> list[InferenceRow]:
    """The row that takes values from a population, and those that blend them with the mini-batch."""
    blended = [
        InferenceRow(configuration.with_blend_for_population, blended_estimate_label(estimate, blend))
        for blend in blends
    ]
    return [InferenceRow(configuration, estimate), *blended]


def collect_all_population_estimates(
    adapter: BatchAdapter,
    layers: Mapping[str, Normalization],
    loaders: Mapping[str, RoleLoader],
    gathered: MomentsByEstimate | None,
    *,
    kept: Container[str] = (),
) -> dict[str, Mapping[str, LayerMoments]]:
    """The estimates of each loader, those of `gathered` in their place, and those that the layers collected.

    Layers with names in `kept` use their configuration meanwhile.

    Raises DataError if `gathered` belongs to other layers.
    """
    collected = {name: _collect_moments_over_loader(adapter, layers, loader, kept) for name, loader in loaders.items()}
    estimates: dict[str, Mapping[str, LayerMoments]] = {**collected, **(gathered or {})}
    _check_estimates_match_layers(estimates, loaders, layers)
    return {
        **moments_by_estimate_from_training_history(layers, get_moments_of_first_data_population(estimates)),
        **estimates,
    }


def get_moments_of_first_data_population(estimates: MomentsByEstimate) -> Mapping[str, LayerMoments]:
    """The moments of the layers that the network uses in evaluation mode: those of the first estimate over data."""
    frozen = estimates.get(PopulationEstimate.FROZEN)
    if frozen is not None:
        return frozen
    return next(moments for name, moments in estimates.items() if name not in list(PopulationEstimate))


def _collect_moments_over_loader(
    adapter: BatchAdapter, layers: Mapping[str, Normalization], loader: RoleLoader, kept: Container[str]
) -> dict[str, LayerMoments]:
    """The population over mini-batches of a loader; layers without a batch_size get the largest mini-batch size.

    Without a batch_size a layer uses the weights of the present mini-batch, and smaller mini-batches are excluded.
    Warns (UserWarning) if no mini-batch reaches a layer.
    """
    inputs = adapter.iter_population_inputs(loader)  # its first mini-batch may decide how the network is called
    with adapter.explained_failures(loader.name):
        gathered = collect_moments_with_frozen_weights(adapter.network, inputs, kept=kept)
    size = max((moments.batch_size for moments in gathered.values()), default=None)
    for layer in layers.values():
        layer.batch_size = layer.batch_size or size
    unreached = [name for name, layer in layers.items() if name not in gathered and layer.method.statistics]
    if unreached:
        warnings.warn(
            f"no mini-batch of {loader.name} reached the layer {unreached[0]} in evaluation mode: rows that read its "
            "population are undefined where other data reach it, and its configuration changes nothing where none do. "
            "If it should be reached, the network calls a module other than this one, for example one in a Python list",
            stacklevel=4,
        )
    return gathered


def _check_estimates_match_layers(
    estimates: MomentsByEstimate, loaders: Mapping[str, RoleLoader], layers: Mapping[str, Normalization]
) -> None:
    """Raise DataError if an estimate belongs to other layers or lacks a layer, ValueError for unknown estimates."""
    for name in estimates.keys() - loaders.keys():
        parse_enum(PopulationEstimate, name, "gathered: a population estimate")
    reached = get_moments_of_first_data_population(estimates).keys()
    for estimate in estimates.keys() - loaders.keys():
        moments = estimates[estimate]
        mismatched = sorted(moments.keys() - layers.keys()) or sorted(reached - moments.keys())
        if mismatched:
            difference = "not a layer of the network" if mismatched[0] in moments else "missing"
            raise DataError(
                f"gathered[{str(estimate)!r}] belongs to other layers than this network's: {mismatched[0]} is "
                f"{difference}; collect the moments from the network that is evaluated, neither from a wrapper around "
                "it (DataParallel, torch.compile) nor from a part of it"
            )
