"""The normalization layers of a network."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from bln_search.core.configuration import (
    BATCH_STATISTICS,
    InferenceConfiguration,
    Method,
    Source,
    all_configurations,
    mini_batch_configuration,
)
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.base import NormalizationBase
from bln_search.norms.layer import Normalization
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.row_tensor import LayerPopulations, Row

Gathered = Mapping[PopulationEstimate, Mapping[str, GatheredMoments]]
"""For each estimate, what each layer gathered, by the layer's name in its network."""


def find_norms(network: nn.Module) -> dict[str, Normalization]:
    """Every normalization layer of `network` by name. Raises ModelError where there is none."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, Normalization)}
    if not layers:
        raise ModelError(
            f"this {type(network).__name__} has no normalization layer of bln_search: build it with BLN, BN or LN, "
            "or convert the BatchNorm and LayerNorm layers it has with bln_search.convert(model)"
        )
    return layers


def network_method(layers: Mapping[str, Normalization]) -> Method:
    """The method whose configurations cover every layer: the one they all have, else BN (BN and BRN) or BLN.

    Raises ModelError where MBN stands beside another: only some of the layers could read M.
    """
    methods = {layer.method for layer in layers.values()}
    if len(methods) == 1:
        return methods.pop()
    if Method.MBN in methods:
        raise ModelError("this network mixes MBN with other normalization layers: make all of them MBN, or none")
    return Method.BN if methods == {Method.BN, Method.BRN} else Method.BLN


def network_configurations(layers: Mapping[str, Normalization]) -> tuple[InferenceConfiguration, ...]:
    """Every configuration that the layers of a network can tell apart."""
    return all_configurations(network_method(layers))


def network_populations(
    layers: Mapping[str, Normalization], gathered: Gathered, correction: Correction, *, per_slot: bool
) -> dict[NormalizationBase, LayerPopulations]:
    """Each layer's population values under each estimate; a layer that was never reached has none."""
    return {
        layer: {
            estimate: layer.population(moments[name], correction_of(estimate, correction), per_slot=per_slot)
            for estimate, moments in gathered.items()
            if name in moments
        }
        for name, layer in layers.items()
        if any(name in moments for moments in gathered.values())
    }


def correction_of(estimate: PopulationEstimate, correction: Correction) -> Correction:
    """The memory is pooled by its own formula, the law of total variance (MBN paper, Eq. 6); the rest as asked."""
    return Correction.TOTAL if estimate is PopulationEstimate.MEMORY else correction


def own_estimates(
    layers: Mapping[str, Normalization], reached: Container[str] | None = None
) -> dict[PopulationEstimate, dict[str, GatheredMoments]]:
    """The estimates that layers have gathered by themselves, where every layer has that needs one.

    reached: names of the layers that the network uses in evaluation mode; by default all.
    """
    used = {name: layer for name, layer in layers.items() if reached is None or name in reached}
    of_layer = {name: layer.own_estimates() for name, layer in used.items()}
    found = {}
    for estimate in PopulationEstimate:
        having = {name: own[estimate] for name, own in of_layer.items() if estimate in own}
        if having and all(name in having or not layer.needs_own_estimate for name, layer in used.items()):
            found[estimate] = having
    return found


def as_deployed(layers: Mapping[str, Normalization], reached: Container[str]) -> Row | None:
    """The row under which a network answers as it did before its layers were converted by `same`.

    Running statistics where a layer has them, else its mini-batch. None where a layer is not as it was converted: it
    was trained further, another configuration was applied, or it is not a converted one.
    """
    used = [layer for name, layer in layers.items() if name in reached]
    if not used or not all(layer.answers_as_before for layer in used):
        return None
    every = mini_batch_configuration(network_method(layers))
    if not any(layer.configuration.uses_population for layer in used):
        return Row(every, None)
    batch = Source.POPULATION * len(BATCH_STATISTICS)
    return Row(InferenceConfiguration(batch + every.word[len(batch) :]), PopulationEstimate.MOVING)


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """While this context is open `network` is in evaluation mode; each module then goes back to the mode it was in."""
    before = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def recording(layers: Iterable[Normalization], wanted: bool) -> Iterator[None]:  # noqa: FBT001
    """While this context is open, training passes are (or are not) recorded in the layers' history."""
    held = list(layers)
    for layer in held:
        layer.recording = wanted
    try:
        yield
    finally:
        for layer in held:
            layer.recording = True


@contextmanager
def mini_batch_statistics(layers: Iterable[Normalization]) -> Iterator[None]:
    """While this context is open every statistic comes from the mini-batch, as in training."""
    before = {layer: layer.configuration for layer in layers}
    for layer in before:
        layer.configuration = mini_batch_configuration(layer.method)
    try:
        yield
    finally:
        for layer, configuration in before.items():
            layer.configuration = configuration
