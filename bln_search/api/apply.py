"""Put a configuration into a network."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from bln_search.api.arguments import check_network_is_module, parse_flag
from bln_search.api.networks import NetworkFingerprint, name_inside_wrappers
from bln_search.api.ranked.layers import PerLayerConfigurationWithPopulations
from bln_search.api.ranked.row import LayerPopulationsByName, RankedConfiguration
from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import BatchDependenceWarning, ModelError
from bln_search.core.method import StatisticSource
from bln_search.core.per_layer import SEPARATOR, PerLayerConfiguration
from bln_search.evaluation.tree.graph.segments import split_at_norms
from bln_search.evaluation.tree.graph.tracing import NotTraceableError
from bln_search.norms import Normalization
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, list_possible_configurations
from bln_search.norms.network.stored_values import missing_stored_statistics

Choice = (
    RankedConfiguration | PerLayerConfigurationWithPopulations | PerLayerConfiguration | InferenceConfiguration | str
)


def apply_configuration(network: nn.Module, choice: Choice, *, allow_other_weights: bool = False) -> nn.Module:
    """Make `network` use `choice` in evaluation mode. The state dict contains the configuration and its values.

    Moving statistics (source E) begin a stream; `bln_search.reset_stream(network)` begins another one.

    Warns (BatchDependenceWarning) if the outputs then depend on the mini-batch; and (UserWarning) of population values
    that were measured with other weights, where these are allowed.

    Args:
        network: A network with normalization layers of bln-search.
        choice: A row of a ranked table, which has its population values (a row of several networks has those of each,
            and `network` is one of them); or a configuration, whose population values
            the layers must have already: one for all layers (`"FFFF"`), or one for each layer (`"TTFF.FFFF"`, in the
            order in which the network reaches them, as `search_layers` prints them).
        allow_other_weights: Use population values of a row although they were measured with other parameters or
            buffers than those of `network`, as of another network or before further training.

    Returns:
        The network.

    Raises:
        ModelError: The network has no normalization layers, or other layers than the evaluated network; the
            configuration belongs to another method or names statistics that no layer has; no layer has its population
            values; or those of the row were measured with other weights. The network is unchanged.

    Example:
        bln_search.apply_configuration(model, ranked.recommended)
        bln_search.apply_configuration(model, "TTTT")  # the layers have population values now
    """
    check_network_is_module(network, "apply_configuration(network, choice)")
    parse_flag("allow_other_weights", allow_other_weights)
    layers = _layers_by_name_in_table(choice, network)
    applied = _resolve_choice(choice, network, list(layers))
    unknown_layers = sorted((applied.configurations.keys() | applied.populations.keys()) - layers.keys())
    if unknown_layers:
        raise ModelError(
            f"this is not the network that was evaluated: the layer {unknown_layers[0]} is not in this one"
        )
    _check_populations_belong_to_weights(choice, applied, network, allow_other_weights=allow_other_weights)
    snapshots = {layer: layer.configured_state() for layer in layers.values()}
    try:
        for name, configuration in applied.configurations.items():
            layers[name].configure(configuration, applied.populations.get(name), applied.blends.get(name))
        _check_any_layer_has_its_populations(layers.values())
    except BaseException:
        for layer, snapshot in snapshots.items():
            layer.restore_configured_state(snapshot)
        raise
    depends_on_batch = any(
        not configuration.restricted_to_statistics_of(layers[name].method).is_deterministic
        for name, configuration in applied.configurations.items()
    )
    is_moving = any(layers[name].configuration.is_moving for name in applied.configurations)
    if depends_on_batch and not applied.is_independent:
        warnings.warn(
            f"{choice} depends on the mini-batch: the output for an example changes with the other examples"
            f"{' and with earlier mini-batches' if is_moving else ''}. The best "
            "row without this dependence is best_batch_independent of the table",
            BatchDependenceWarning,
            stacklevel=2,
        )
    return network


def _layers_by_name_in_table(choice: Choice, network: nn.Module) -> dict[str, Normalization]:
    """The layers by their names when the table was made: inside of or without `DataParallel` or `torch.compile`."""
    names: set[str] = set()
    if isinstance(choice, RankedConfiguration):
        for row in (choice, *choice.networks):
            names |= row.populations.keys() | row.without_estimate
    elif isinstance(choice, PerLayerConfigurationWithPopulations):
        names.update(choice.layers)
    layers = get_norms_by_name(network)
    if names <= layers.keys():
        return layers
    in_table = {name_inside_wrappers(name): name for name in names}
    return {in_table.get(name_inside_wrappers(name), name): layer for name, layer in layers.items()}


@dataclass(frozen=True)
class _AppliedConfigurations:
    """What a choice means for a network: configurations, population values and weights of blends by layer.

    `is_independent` says that outputs are known to be independent of the mini-batch, because evaluation skips the
    layers that depend on it.
    """

    configurations: Mapping[str, InferenceConfiguration]
    populations: LayerPopulationsByName = field(default_factory=dict)
    blends: Mapping[str, PopulationWeight] = field(default_factory=dict)
    measured_with: NetworkFingerprint | None = None
    is_independent: bool = False


def _resolve_choice(choice: Choice, network: nn.Module, names: Sequence[str]) -> _AppliedConfigurations:
    if isinstance(choice, RankedConfiguration):
        row = choice.with_populations_of_network(network)
        configurations = {name: row.configuration_of_layer(name) for name in names}
        blends = {} if row.blend is None else dict.fromkeys(names, row.blend)
        return _AppliedConfigurations(
            configurations, row.populations, blends, row.measured_with, is_independent=row.is_independent
        )
    if isinstance(choice, PerLayerConfigurationWithPopulations):
        configurations = dict(zip(choice.layers, choice.configuration.configurations, strict=True))
        return _AppliedConfigurations(configurations, choice.populations, choice.blends, choice.measured_with)
    if not isinstance(choice, PerLayerConfiguration | InferenceConfiguration | str):
        raise ModelError(
            f"a {type(choice).__name__} is not a configuration: give a row of a table, as in ranked.recommended or "
            'ranked[0], or a configuration, as in "FFFF"'
        )
    parsed = _parse_configuration_code(choice) if isinstance(choice, str) else choice
    if isinstance(parsed, InferenceConfiguration):
        _check_statistics_exist(parsed, get_norms_by_name(network))
        return _AppliedConfigurations(dict.fromkeys(names, parsed))
    names = _layer_names_in_execution_order(network, names, parsed)
    if len(parsed.configurations) != len(names):
        raise ModelError(
            f"{parsed} has configurations for {len(parsed.configurations)} layers, the network has {len(names)} "
            f"normalization layers: {', '.join(names)}"
        )
    return _AppliedConfigurations(dict(zip(names, parsed.configurations, strict=True)))


def _check_statistics_exist(configuration: InferenceConfiguration, layers: Mapping[str, Normalization]) -> None:
    """Raise ModelError if a configuration names a statistic that no layer has."""
    existing = {statistic for layer in layers.values() for statistic in layer.method.statistics}
    named = {
        statistic
        for statistic, source in configuration.source_by_statistic.items()
        if source is not StatisticSource.ABSENT
    }
    if named - existing:
        possible = ", ".join(map(str, list_possible_configurations(layers)))
        raise ModelError(
            f"{configuration} names statistics that no layer of this network has: its configurations are {possible}"
        )


def _check_populations_belong_to_weights(
    choice: Choice, applied: _AppliedConfigurations, network: nn.Module, *, allow_other_weights: bool
) -> None:
    """Raise ModelError, or warn, where the values of a row were measured with other weights."""
    if applied.measured_with is None or not applied.populations:
        return
    different = applied.measured_with.describe_difference(NetworkFingerprint.of_network(network))
    if different is None:
        return
    problem = (
        f"the population values of {choice} were measured with other {different} than this network has: it is another "
        "network, or its weights changed after the evaluation"
    )
    if not allow_other_weights:
        raise ModelError(
            f"{problem}. Evaluate this network, or use the values with apply_configuration(network, row, "
            "allow_other_weights=True)"
        )
    warnings.warn(f"{problem}; its outputs may be wrong", stacklevel=3)


def _check_any_layer_has_its_populations(layers: Iterable[Normalization]) -> None:
    """Raise ModelError if layers read population values, and no layer has those that it reads."""
    readers = [
        layer
        for layer in layers
        if any(layer.configuration.source_of(statistic).reads_stored_value for statistic in layer.method.statistics)
    ]
    missing = [missing_stored_statistics(layer) for layer in readers]
    if readers and all(missing):
        raise ModelError(
            f"{readers[0].configuration} reads {', '.join(map(str, missing[0]))} from the population, and no layer of "
            "this network was given such values: apply a row of a ranked table, as in "
            "apply_configuration(network, ranked.recommended)"
        )


def _layer_names_in_execution_order(
    network: nn.Module, names: Sequence[str], configuration: PerLayerConfiguration
) -> Sequence[str]:
    """The layers in the order in which the network reaches them; any order if all layers have the same configuration.

    Raises ModelError if the order matters and cannot be determined without a forward pass.
    """
    try:
        with evaluation_mode(network):
            return split_at_norms(network).names
    except NotTraceableError as error:
        if configuration.is_uniform:
            return names
        raise ModelError(
            f"the order in which this {type(network).__name__} reaches its normalization layers is unknown, so "
            f"{configuration} cannot be applied: apply the result of search_layers, as in "
            "apply_configuration(network, layered.best) or layered.with_populations(configuration), which name the "
            f"layers ({error})"
        ) from error
    except ModelError:
        return names


def _parse_configuration_code(code: str) -> PerLayerConfiguration | InferenceConfiguration:
    try:
        return PerLayerConfiguration.parse(code) if SEPARATOR in code else InferenceConfiguration(code)
    except ValueError as error:
        raise ModelError(str(error)) from None
