"""One network with its data: mini-batches are tried, populations collected, and the rows that read them listed."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from dataclasses import dataclass

from torch import nn

from bln_search.api.arguments import get_network_device
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.evaluation_data import EvaluationData
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.networks import NetworkFingerprint
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.enums import Correction, PopulationEstimate, parse_enum
from bln_search.core.errors import DataError
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.adapted_network import Forward
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    compute_populations_of_layers,
    get_norms_by_name,
    list_possible_configurations,
    moments_by_estimate_from_training_history,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.norms.statistics import LayerPopulation
from bln_search.tasks.score import Score


@dataclass(frozen=True)
class MeasuredPopulations:
    """The population values of one network.

    Attributes:
        estimates: Moments of each layer under each estimate.
        values: The population values of each layer.
        by_estimate: The values of the layers that were reached, by estimate and name.
        measured_with: Fingerprint of the network.
    """

    estimates: MomentsByEstimate
    values: Populations
    by_estimate: Mapping[str, Mapping[str, LayerPopulation]]
    measured_with: NetworkFingerprint


class PreparedNetwork:
    """One network with its data. Mini-batches are tried when it is made; no pass over the data begins before.

    Args:
        per_slot: Feature populations have a value for each slot of the mini-batch.
        one_pass: Mini-batches of splits must fit the one pass.

    Raises:
        ModelError: The network cannot be evaluated.
        DataError: Mini-batches do not fit the network or the score.
    """

    def __init__(
        self,
        network: nn.Module,
        data: EvaluationData,
        *,
        score: Score,
        forward: Forward | None,
        target: Target | None,
        per_slot: bool,
        one_pass: bool,
        progress: ProgressLines,
    ) -> None:
        self.network, self.data, self.score, self.per_slot = network, data, score, per_slot
        self.layers = get_norms_by_name(network)
        device = get_network_device(network)
        self.adapter = BatchAdapter(
            network, forward, target, device, progress, needs_one_pass=one_pass, needs_slots=per_slot
        )
        self.adapter.try_samples(data.loaders_of_all_splits, data.populations.values(), score)

    def measure_populations(
        self, gathered: MomentsByEstimate | None, correction: Correction, *, kept: Container[str] = ()
    ) -> MeasuredPopulations:
        """Collect the populations. Layers with names in `kept` use their configuration meanwhile."""
        estimates = collect_all_population_estimates(
            self.adapter, self.layers, self.data.populations, gathered, kept=kept
        )
        # after a pass has created lazy layers' weights
        measured_with = NetworkFingerprint.of_network(self.network, is_measured=True)
        values = compute_populations_of_layers(self.layers, estimates, correction, per_slot=self.per_slot)
        by_name = {name: values[layer] for name, layer in self.layers.items() if layer in values}
        by_estimate = {
            estimate: {name: of_layer[estimate] for name, of_layer in by_name.items() if estimate in of_layer}
            for estimate in estimates
        }
        return MeasuredPopulations(estimates, values, by_estimate, measured_with)


def list_possible_inference_rows(
    layers: Mapping[str, Normalization], estimates: MomentsByEstimate, weights: MixtureWeights | None = None
) -> list[InferenceRow]:
    """Every configuration, with each estimate of what it takes from the population, and with each mixture of it."""
    with_own_letter = [estimate for estimate in PopulationEstimate if estimate.has_own_source_letter]
    statistics_by_estimate = {
        estimate: {statistic for name in moments for statistic in layers[name].method.statistics}
        for estimate, moments in estimates.items()
        if estimate not in with_own_letter
    }
    rows = []
    for configuration in list_possible_configurations(layers, estimates):
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
                rows.append(InferenceRow(configuration, estimate))
                rows += [
                    InferenceRow(*mixed) for mixed in (weights or MixtureWeights()).list_rows(configuration, estimate)
                ]
    return rows


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
    with adapter.caller.explained_failures(loader.name):
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
