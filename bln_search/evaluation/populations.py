"""Population estimates of a network for its evaluation: the `frozen` one by passes that collect moments."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Container, Iterable, Mapping
from itertools import islice

import torch
from torch import Tensor, nn

from bln_search.core.configuration import mini_batch_configuration_of
from bln_search.core.errors import DataError
from bln_search.data.inputs import Inputs, can_slice_examples
from bln_search.evaluation.chunking import MEMORY_LIMIT, choose_chunk_sizes
from bln_search.evaluation.isolated_passes import OwnRandomNumbers, restored_network
from bln_search.evaluation.network_state import NetworkState
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator, use_moment_accumulators
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    compute_populations_of_layers,
    evaluation_mode,
    get_norms_by_name,
    method_covering_all_layers,
    use_training_sources_in_evaluation,
)
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    Populations,
    RowBatchingPlan,
    tag_with_rows,
)
from bln_search.specs.trial import TrialSpec

_log = logging.getLogger(__name__)

_LARGEST_ACTIVATION_ON_CPU = 2**20
"""Bytes of an activation of all mini-batches of a pass: what the cache of a core holds."""

_MOST_MINI_BATCHES = 256
"""Largest number of mini-batches of a pass, whose statistics are kept until its end."""

_CHECKED_MINI_BATCHES = 4
"""Number of first mini-batches that are passed both ways; passes of fewer gain nothing."""

_TOLERANCE = 1e-4
"""Largest accepted relative difference of moments, see `StatisticMoments.is_close_to`."""

Accumulators = Mapping[str, MomentAccumulator]


class MomentPasses:
    """Passes mini-batches through a network, whose normalization layers accumulate their statistics.

    Args:
        network: in evaluation mode, with layers that compute all statistics from the mini-batch.
        layers: the layers by name.

    Attributes:
        accumulators: of the statistics of each layer, by its name.
    """

    def __init__(self, network: nn.Module, layers: Mapping[str, Normalization]) -> None:
        self._network, self._layers, self._random_numbers = network, layers, OwnRandomNumbers()
        self.accumulators = self._make_accumulators()

    def pass_one_by_one(self, inputs: Iterable[Inputs]) -> None:
        """Pass each mini-batch (m, ...) alone."""
        with use_moment_accumulators(self._by_layer(self.accumulators)):
            for x in inputs:
                for accumulator in self.accumulators.values():
                    accumulator.includes_all_sizes = accumulator.includes_all_sizes or not can_slice_examples(x)
                with self._random_numbers.used_here():
                    self._network(x.clone())

    def accumulate_several_at_once(self, inputs: Iterable[Inputs]) -> None:
        """Pass mini-batches (m, ...) of one shape, several at once where that gives the same moments.

        The moments of the first few are computed both ways. If they differ, or the network does not support such a
        pass, as where it does not treat examples independently, each mini-batch is passed alone.
        """
        batches = iter(inputs)
        first = list(islice(batches, _CHECKED_MINI_BATCHES))
        state = NetworkState(self._network)
        self.pass_one_by_one(first)
        size = self._choose_number_at_once(first) if state.is_current else 1
        while size > 1 and (group := list(islice(batches, size))):
            if not self._try_pass_at_once(group):
                self.pass_one_by_one(group)
                break
        self.pass_one_by_one(batches)

    def compute_moments_of_layer(self, name: str) -> LayerMoments:
        """Return the moments of a layer that a mini-batch reached."""
        return self._average(name, self.accumulators[name])

    def _make_accumulators(self) -> dict[str, MomentAccumulator]:
        accumulators = {}
        for name in self._layers:
            accumulators[name] = MomentAccumulator(in_evaluation=True)
            accumulators[name].name = name
        return accumulators

    def _by_layer(self, accumulators: Accumulators) -> dict[Normalization, MomentAccumulator]:
        return {layer: accumulators[name] for name, layer in self._layers.items()}

    def _average(self, name: str, accumulator: MomentAccumulator) -> LayerMoments:
        layer = self._layers[name]
        return accumulator.averaged_moments(
            has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
        )

    def _choose_number_at_once(self, first: list[Inputs]) -> int:
        """Return how many mini-batches are passed at once, after the first ones were passed one by one; 1 for none."""
        has_rule_for_sizes = any(of.includes_all_sizes or of.weighs_by_size for of in self.accumulators.values())
        from_weights = any(layer.method.computes_statistics_from_weights for layer in self._layers.values())
        if len(first) < _CHECKED_MINI_BATCHES or not isinstance(first[0], Tensor) or has_rule_for_sizes or from_weights:
            return 1
        limit = _LARGEST_ACTIVATION_ON_CPU if first[0].device.type == "cpu" else MEMORY_LIMIT
        number = min(choose_chunk_sizes(self._network, first[0], 1, limit).groups, _MOST_MINI_BATCHES)
        return number if number >= _CHECKED_MINI_BATCHES and self._has_same_moments_at_once(first) else 1

    def _has_same_moments_at_once(self, first: list[Inputs]) -> bool:
        accumulators = self._make_accumulators()
        try:
            self._pass_at_once(first, accumulators)
        except Exception as error:  # noqa: BLE001 - whatever the network refuses
            _log.debug("mini-batches are passed one by one: %s", error)
            return False
        return all(
            self._are_close(name, accumulator, self.accumulators[name]) for name, accumulator in accumulators.items()
        )

    def _try_pass_at_once(self, group: list[Inputs]) -> bool:
        """Pass mini-batches at once; returns False, with the moments as before, if that is an error."""
        saved = {
            name: {key: tensor.clone() for key, tensor in accumulator.state_tensors().items()}
            for name, accumulator in self.accumulators.items()
        }
        try:
            self._pass_at_once(group, self.accumulators)
        except Exception as error:  # noqa: BLE001 - memory ran out, or what the network does with these examples
            _log.debug("mini-batches are passed one by one from here on: %s", error)
            for name, accumulator in self.accumulators.items():
                device = saved[name]["sum"].device if "sum" in saved[name] else torch.device("cpu")
                accumulator.restore_state(saved[name], device)
            return False
        return True

    def _are_close(self, name: str, first: MomentAccumulator, second: MomentAccumulator) -> bool:
        if first.is_empty or second.is_empty:
            return first.is_empty and second.is_empty
        moments, expected = self._average(name, first), self._average(name, second)
        pairs = [(moments.batch, expected.batch), (moments.feature, expected.feature)]
        return all(a is not None and b is not None and a.is_close_to(b, _TOLERANCE) for a, b in pairs if a or b)

    def _pass_at_once(self, group: list[Inputs], accumulators: Accumulators) -> None:
        tensors = [x for x in group if isinstance(x, Tensor)]
        method = method_covering_all_layers(self._layers)
        plan = RowBatchingPlan((InferenceRow(mini_batch_configuration_of(method), None),), {})
        layout = BatchLayout(plan, len(tensors), len(tensors[0]))
        with use_moment_accumulators(self._by_layer(accumulators)):
            self._network(tag_with_rows(torch.cat(tensors), layout, 1))


def compute_trial_populations(trial: TrialSpec, network: nn.Module, moments: MomentsByEstimate) -> Populations:
    """Return the population values of each layer of `network` under each estimate, as the trial's evaluation asks.

    Args:
        trial: names the correction and whether feature values are kept for each slot.
        network: a network of the trial.
        moments: of each layer under each estimate.
    """
    evaluation = trial.evaluation
    return compute_populations_of_layers(
        get_norms_by_name(network), moments, evaluation.correction, per_slot=evaluation.per_slot
    )


@torch.no_grad()
def collect_moments_with_frozen_weights(
    network: nn.Module, inputs: Iterable[Inputs], *, kept: Container[str] = (), several_at_once: bool = False
) -> dict[str, LayerMoments]:
    """Collect the moments of each normalization layer over training mini-batches with fixed weights.

    The network runs in evaluation mode (no dropout), with all statistics from the mini-batch, as in BLN's Algorithm 2.
    Mini-batches smaller than the largest are excluded, unless their examples are not on the first axis, as in batches
    of graphs. Layers that the network does not use in evaluation mode are excluded. The network is not changed. Warns
    (UserWarning) where most mini-batches are excluded.

    Args:
        network: the trained network.
        inputs: inputs (m, ...) of training mini-batches.
        kept: names of layers that use their configuration instead of mini-batch statistics.
        several_at_once: pass several mini-batches at once where that gives the same moments up to rounding. All have
            one shape.

    Returns:
        The moments of each layer by name.

    Raises:
        DataError: no mini-batch reached a normalization layer.
    """
    layers = get_norms_by_name(network)
    passes = MomentPasses(network, layers)
    with (
        restored_network(network, with_random_state=False),
        evaluation_mode(network),
        use_training_sources_in_evaluation(layer for name, layer in layers.items() if name not in kept),
    ):
        (passes.accumulate_several_at_once if several_at_once else passes.pass_one_by_one)(inputs)
    reached = [name for name, accumulator in passes.accumulators.items() if not accumulator.is_empty]
    if not any(layer.method.statistics for layer in layers.values()):
        return {}
    if not reached:
        raise DataError(
            "no training mini-batch reached a normalization layer: give at least one complete mini-batch, and a "
            "network whose forward pass calls its present layers, not modules that they replaced"
        )
    _warn_if_most_excluded(passes.accumulators[reached[0]])
    return {name: passes.compute_moments_of_layer(name) for name in reached}


def _warn_if_most_excluded(accumulator: MomentAccumulator) -> None:
    included, seen = accumulator.batches_included, accumulator.batches_seen
    if included < seen - included:
        warnings.warn(
            f"the population is estimated from {included} of {seen} training mini-batches, those of "
            f"{accumulator.batch_size} examples; smaller ones are excluded: give mini-batches of one size",
            stacklevel=2,
        )
