"""The normalization layers of a network."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from bln_search.core.configuration import (
    InferenceConfiguration,
    enumerate_configurations,
    mini_batch_configuration_of,
    training_configuration_of,
)
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method, Statistic, StatisticSource, source_of_mbn
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.normalization import Normalization
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import InferenceRow, LayerPopulations
from bln_search.norms.statistics import configuration_of_layer_in_row, select_layer_population

MomentsByEstimate = Mapping[str, Mapping[str, LayerMoments]]
"""For each population, by name, the moments of each layer, by the layer's name in its network."""


def get_norms_by_name(network: nn.Module) -> dict[str, Normalization]:
    """Return every normalization layer of `network` by name. Raises ModelError where there is none."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, Normalization)}
    if not layers:
        raise ModelError(
            f"this {type(network).__name__} has no normalization layer of bln_search: build it with BLN, BN or LN, "
            'or convert the BatchNorm and LayerNorm layers it has with bln_search.convert(model, method="same"), which '
            "keeps the outputs of a trained network, or with bln_search.convert(model), which makes them BLN"
        )
    return layers


def method_covering_all_layers(layers: Mapping[str, Normalization]) -> Method:
    """Return the method whose configurations cover all layers: their common one, else BN for batch statistics, or BLN.

    Layers without normalization (`none`) have no choice and do not count beside others.

    Raises:
        ModelError: the network mixes a method that has sources of its own with another one.
    """
    methods = {layer.method for layer in layers.values()}
    methods = methods - {Method.NONE} or methods
    if len(methods) == 1:
        return methods.pop()
    own = next((method for method in Method if method in methods and method.method_specific_sources), None)
    if own is not None:
        raise ModelError(
            f"this network mixes {own} with other normalization layers: use {own} for all of them or for none"
        )
    return Method.BLN if any(method.has_feature_statistics for method in methods) else Method.BN


def list_possible_configurations(
    layers: Mapping[str, Normalization], estimates: Collection[str] = ()
) -> tuple[InferenceConfiguration, ...]:
    """Return every distinct configuration of the layers of a network, with the sources that they enumerate.

    Args:
        layers: of the network, by name.
        estimates: that are known; sources such as A of BN and BLN are included where theirs is among them.
    """
    method = method_covering_all_layers(layers)
    own = {source_of_mbn(reading) for layer in layers.values() for reading in layer.memory_sources}
    known = {source for source in method.optional_sources if source.fixed_estimate in estimates}
    return enumerate_configurations(method, own | known)


def compute_populations_of_layers(
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
                moments_of_layers[name], correction_for_estimate(estimate, correction), per_slot=per_slot
            )
            for estimate, moments_of_layers in moments.items()
            if name in moments_of_layers
        }
        for name, layer in layers.items()
        if any(name in moments_of_layers for moments_of_layers in moments.values())
    }


def correction_for_estimate(estimate: str, correction: Correction) -> Correction:
    """Return the correction for an estimate: always `total` for those that a letter names, such as MBN's memory."""
    is_named_by_letter = any(estimate == named for named in PopulationEstimate if named.has_own_source_letter)
    return Correction.TOTAL if is_named_by_letter else correction


def moments_by_estimate_from_training_history(
    layers: Mapping[str, Normalization], reached: Container[str] | None = None
) -> dict[str, dict[str, LayerMoments]]:
    """Return the estimates from the layers' own history of training.

    An estimate is included if every reached layer that requires one (`requires_layer_estimate`) has it.

    Args:
        layers: of the network, by name.
        reached: names of the layers that mini-batches of a population reached; None for all.
    """
    used = {name: layer for name, layer in layers.items() if reached is None or name in reached}
    histories = {name: layer.moments_by_estimate_from_history() for name, layer in layers.items()}
    complete: dict[str, dict[str, LayerMoments]] = {}
    for estimate in PopulationEstimate:
        moments = {name: history[estimate] for name, history in histories.items() if estimate in history}
        if moments.keys() & used.keys() and all(
            name in moments or not layer.requires_layer_estimate for name, layer in used.items()
        ):
            complete[estimate] = moments
    return complete


def is_population_of_data(name: str | None) -> bool:
    """Return whether a population is estimated from mini-batches of a loader, not from the layers' own history."""
    return name == PopulationEstimate.FROZEN or name not in list(PopulationEstimate)


def find_row_of_original_outputs(layers: Mapping[str, Normalization], reached: Container[str]) -> InferenceRow | None:
    """Return the row in which a converted network gives the outputs of the original one.

    The row uses running statistics where a layer has them, else the mini-batch. None where a layer was trained further,
    another configuration was applied, or it was not converted with preserved outputs.

    Args:
        layers: of the network, by name.
        reached: names of the layers that the network uses in evaluation mode.
    """
    used = [layer for name, layer in layers.items() if name in reached]
    if not used or not all(layer.reproduces_replaced_layer_outputs for layer in used):
        return None
    from_batch = mini_batch_configuration_of(method_covering_all_layers(layers))
    if not any(layer.configuration.uses_population for layer in used):
        return InferenceRow(from_batch, None)
    running = {statistic for layer in used for statistic in statistics_read_from_population(layer.configuration)}
    letters = [
        str(StatisticSource.POPULATION) if statistic in running else letter
        for statistic, letter in zip(Statistic, from_batch.code, strict=True)
    ]
    return InferenceRow(InferenceConfiguration("".join(letters)), PopulationEstimate.MOVING)


def statistics_read_from_population(configuration: InferenceConfiguration) -> set[Statistic]:
    """Return the statistics that come from the population, alone or blended."""
    return {statistic for statistic, source in configuration.source_by_statistic.items() if source.reads_population}


def reset_stream(network: nn.Module) -> None:
    """Let the next mini-batch of a network be the first one of a stream, in all layers with moving statistics (E).

    Without such layers nothing changes. Other modules may have a method `reset_stream` too, as a loaded program.
    """
    for module in network.modules():
        reset = getattr(module, "reset_stream", None)
        if callable(reset):
            reset()


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Set `network` to evaluation mode in this context, then restore the mode of each module.

    A module with a `train` or `eval` of its own, as one that merges its weights for inference, is switched back by it,
    and what these methods wrote has its values again, bit for bit.
    """
    saved = [(module, module.training) for module in network.modules()]
    switching = [(module, training) for module, training in saved if _has_own_mode_switch(module)]
    values = [(x, x.detach().clone()) for x in _iter_tensors([module for module, training in switching if training])]
    network.eval()
    written = [(x, value, x.detach().clone()) for x, value in values if not torch.equal(x, value)]
    try:
        yield
    finally:
        unchanged = [(x, value) for x, value, in_evaluation in written if torch.equal(x, in_evaluation)]
        for module, training in switching:
            if module.training != training:
                module.train(training)
        for module, training in saved:
            module.training = training
        for x, value in unchanged:
            x.data.copy_(value)


def _has_own_mode_switch(module: nn.Module) -> bool:
    """Return whether a change of a module's mode may do more than set flags."""
    return type(module).train is not nn.Module.train or type(module).eval is not nn.Module.eval


def _iter_tensors(modules: Iterable[nn.Module]) -> Iterator[Tensor]:
    """Yield each parameter and buffer of modules once; those of lazy layers do not exist yet."""
    parts = nn.ModuleList(modules)
    return (x for x in (*parts.parameters(), *parts.buffers()) if not is_lazy(x) and not x.is_meta)


@contextmanager
def use_history_recording(layers: Iterable[Normalization], enabled: bool) -> Iterator[None]:  # noqa: FBT001
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
def use_fused_kernels(layers: Iterable[Normalization], enabled: bool) -> Iterator[None]:  # noqa: FBT001
    """Compute the training steps of layers in this context with the fused kernels, or not."""
    layers = list(layers)
    for layer in layers:
        layer.uses_fused_kernels = enabled
    try:
        yield
    finally:
        for layer in layers:
            layer.uses_fused_kernels = False


@contextmanager
def use_configured_sources_in_training(layers: Iterable[Normalization]) -> Iterator[None]:
    """In this context each layer takes its statistics in training mode as its configuration says."""
    layers = list(layers)
    for layer in layers:
        layer.training_configuration = layer.configuration
    try:
        yield
    finally:
        for layer in layers:
            layer.training_configuration = None


def store_populations_from_moments(
    layers: Mapping[str, Normalization],
    moments: MomentsByEstimate,
    correction: Correction,
    *,
    per_slot: bool = False,
) -> None:
    """Give each layer new population values for its present configuration.

    Args:
        layers: of the network, by name.
        moments: of each layer under the estimate `frozen`, for sources T and B, and under those that letters name.
        correction: of the population variance.
        per_slot: keep one feature value for each slot of the mini-batch.

    Raises:
        ModelError: a configuration has no value under the new population.
    """
    populations = compute_populations_of_layers(layers, moments, correction, per_slot=per_slot)
    for layer, estimates in populations.items():
        configuration = configuration_of_layer_in_row(layer.configuration, PopulationEstimate.FROZEN, estimates)
        population = select_layer_population(configuration, PopulationEstimate.FROZEN, estimates)
        layer.configure(configuration, population, layer.blend)


@contextmanager
def use_training_sources_in_evaluation(layers: Iterable[Normalization]) -> Iterator[None]:
    """Take all statistics as in training in this context: from the mini-batch, or from the weights (source A)."""
    saved = {layer: layer.configuration for layer in layers}
    for layer in saved:
        layer.configuration = training_configuration_of(layer.method)
    try:
        yield
    finally:
        for layer, configuration in saved.items():
            layer.configuration = configuration
