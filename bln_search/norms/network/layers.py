"""The normalization layers of a network."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from bln_search.core.configuration import (
    InferenceConfiguration,
    Method,
    Source,
    Statistic,
    all_configurations,
    mini_batch_configuration,
)
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.base import NormalizationBase
from bln_search.norms.layer import Normalization
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.row_batching.row_tensor import InferenceRow, LayerPopulations
from bln_search.norms.statistics import layer_configuration, select_population

MomentsByEstimate = Mapping[str, Mapping[str, LayerMoments]]
"""For each population, by name, the moments of each layer, by the layer's name in its network."""


def find_norms(network: nn.Module) -> dict[str, Normalization]:
    """Return every normalization layer of `network` by name. Raises ModelError where there is none."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, Normalization)}
    if not layers:
        raise ModelError(
            f"this {type(network).__name__} has no normalization layer of bln_search: build it with BLN, BN or LN, "
            "or convert the BatchNorm and LayerNorm layers it has with bln_search.convert(model)"
        )
    return layers


def network_method(layers: Mapping[str, Normalization]) -> Method:
    """Return the method whose configurations cover all layers: their common one, else BN (BN and BRN) or BLN.

    Layers without normalization (`none`) have no choice and do not count beside others.

    Raises:
        ModelError: the network mixes MBN with another method; only some layers could use source M.
    """
    methods = {layer.method for layer in layers.values()}
    methods = methods - {Method.NONE} or methods
    if len(methods) == 1:
        return methods.pop()
    if Method.MBN in methods:
        raise ModelError("this network mixes MBN with other normalization layers: use MBN for all of them or for none")
    return Method.BN if methods == {Method.BN, Method.BRN} else Method.BLN


def network_configurations(layers: Mapping[str, Normalization]) -> tuple[InferenceConfiguration, ...]:
    """Return every distinct configuration of the layers of a network."""
    return all_configurations(network_method(layers))


def network_populations(
    layers: Mapping[str, Normalization], moments: MomentsByEstimate, correction: Correction, *, per_slot: bool
) -> dict[NormalizationBase, LayerPopulations]:
    """Compute the population values of each layer under each estimate.

    Args:
        layers: of the network, by name.
        moments: of each layer under each estimate.
        correction: of the population variance.
        per_slot: keep one feature value for each slot of the mini-batch.

    Returns:
        Population values by estimate for each layer that has moments under some estimate.
    """
    return {
        layer: {
            estimate: layer.compute_population(
                moments_of_layers[name], correction_for(estimate, correction), per_slot=per_slot
            )
            for estimate, moments_of_layers in moments.items()
            if name in moments_of_layers
        }
        for name, layer in layers.items()
        if any(name in moments_of_layers for moments_of_layers in moments.values())
    }


def correction_for(estimate: str, correction: Correction) -> Correction:
    """Return the correction for an estimate: always `total` for the memory (MBN paper, Eq. 6)."""
    return Correction.TOTAL if estimate == PopulationEstimate.MEMORY else correction


def layer_estimates(
    layers: Mapping[str, Normalization], reached: Container[str] | None = None
) -> dict[str, dict[str, LayerMoments]]:
    """Return the estimates from the layers' own history of training.

    An estimate is included if every layer that requires one (`requires_layer_estimate`) has it.

    Args:
        layers: of the network, by name.
        reached: names of the layers that the network uses in evaluation mode; None for all.
    """
    used = {name: layer for name, layer in layers.items() if reached is None or name in reached}
    histories = {name: layer.history_estimates() for name, layer in used.items()}
    complete: dict[str, dict[str, LayerMoments]] = {}
    for estimate in PopulationEstimate:
        moments = {name: history[estimate] for name, history in histories.items() if estimate in history}
        if moments and all(name in moments or not layer.requires_layer_estimate for name, layer in used.items()):
            complete[estimate] = moments
    return complete


def row_matching_original_outputs(layers: Mapping[str, Normalization], reached: Container[str]) -> InferenceRow | None:
    """Return the row in which a converted network gives the outputs of the original one.

    The row uses running statistics where a layer has them, else the mini-batch. None where a layer was trained further,
    another configuration was applied, or it was not converted with preserved outputs.

    Args:
        layers: of the network, by name.
        reached: names of the layers that the network uses in evaluation mode.
    """
    used = [layer for name, layer in layers.items() if name in reached]
    if not used or not all(layer.matches_replaced_layer for layer in used):
        return None
    from_batch = mini_batch_configuration(network_method(layers))
    if not any(layer.configuration.uses_population for layer in used):
        return InferenceRow(from_batch, None)
    running = {statistic for layer in used for statistic in statistics_from_population(layer.configuration)}
    letters = [
        str(Source.POPULATION) if statistic in running else letter
        for statistic, letter in zip(Statistic, from_batch.code, strict=True)
    ]
    return InferenceRow(InferenceConfiguration("".join(letters)), PopulationEstimate.MOVING)


def statistics_from_population(configuration: InferenceConfiguration) -> set[Statistic]:
    """Return the statistics that come from the population, alone or blended."""
    return {statistic for statistic, source in configuration.sources.items() if source.reads_population}


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Set `network` to evaluation mode in this context, then restore the mode of each module."""
    saved = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in saved:
            module.training = training


@contextmanager
def set_history_recording(layers: Iterable[Normalization], enabled: bool) -> Iterator[None]:  # noqa: FBT001
    """Enable or disable in this context the recording of training passes in the layers' history."""
    layers = list(layers)
    for layer in layers:
        layer.records_history = enabled
    try:
        yield
    finally:
        for layer in layers:
            layer.records_history = True


@contextmanager
def training_as_configured(layers: Iterable[Normalization]) -> Iterator[None]:
    """In this context each layer takes its statistics in training mode as its configuration says."""
    layers = list(layers)
    for layer in layers:
        layer.training_configuration = layer.configuration
    try:
        yield
    finally:
        for layer in layers:
            layer.training_configuration = None


def refresh_populations(
    layers: Mapping[str, Normalization],
    moments: MomentsByEstimate,
    correction: Correction,
    *,
    per_slot: bool = False,
) -> None:
    """Give each layer new population values for its present configuration.

    Args:
        layers: of the network, by name.
        moments: of each layer under the estimate `frozen`, for sources T and B, and `memory`, for M.
        correction: of the population variance.
        per_slot: keep one feature value for each slot of the mini-batch.

    Raises:
        ModelError: a configuration has no value under the new population.
    """
    populations = network_populations(layers, moments, correction, per_slot=per_slot)
    for layer, estimates in populations.items():
        configuration = layer_configuration(layer.configuration, PopulationEstimate.FROZEN, estimates)
        population = select_population(configuration, PopulationEstimate.FROZEN, estimates)
        layer.configure(configuration, population, layer.blend)


@contextmanager
def use_mini_batch_statistics(layers: Iterable[Normalization]) -> Iterator[None]:
    """Take all statistics from the mini-batch in this context, as in training."""
    saved = {layer: layer.configuration for layer in layers}
    for layer in saved:
        layer.configuration = mini_batch_configuration(layer.method)
    try:
        yield
    finally:
        for layer, configuration in saved.items():
            layer.configuration = configuration
