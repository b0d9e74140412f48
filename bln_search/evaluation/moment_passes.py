"""Forward passes that collect the moments of normalization layers over mini-batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from itertools import islice

import torch
from torch import Tensor, nn

from bln_search.core.configuration import mini_batch_configuration_of
from bln_search.data.inputs import Inputs, can_slice_examples
from bln_search.evaluation.chunking import MEMORY_LIMIT, choose_chunk_sizes
from bln_search.evaluation.isolated_passes import OwnRandomNumbers
from bln_search.evaluation.network_state import NetworkState
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator, use_moment_accumulators
from bln_search.norms.network.layers import method_covering_all_layers
from bln_search.norms.row_batching.row_tensor import BatchLayout, InferenceRow, RowBatchingPlan, tag_with_rows

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
        """Return whether a pass of all mini-batches so far gives their moments."""
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
