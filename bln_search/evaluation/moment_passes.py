"""Forward passes that collect the moments of normalization layers over mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice

import torch
from torch import Tensor, nn

from bln_search.core.configuration import mini_batch_configuration_of
from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs, can_slice_examples
from bln_search.evaluation.chunking import MEMORY_LIMIT, choose_chunk_sizes
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator, attach_accumulators
from bln_search.norms.network.layers import method_covering_all_layers
from bln_search.norms.row_batching.row_tensor import BatchLayout, EnumerationPlan, InferenceRow, tag_with_rows

_LARGEST_ACTIVATION_ON_CPU = 2**20
"""Bytes of an activation of all mini-batches of a pass: what the cache of a core holds."""

_FEWEST_MINI_BATCHES, _MOST_MINI_BATCHES = 4, 256
"""Numbers of mini-batches of a pass: fewer gain nothing, and the statistics of all are kept until its end."""

_TOLERANCE = 1e-4
"""Largest accepted difference of moments, relative to the largest mean or deviation of the layer."""

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
        self._network, self._layers = network, layers
        self.accumulators = self._make_accumulators()

    def pass_each(self, inputs: Iterable[Inputs]) -> None:
        """Pass each mini-batch (m, ...) alone."""
        with attach_accumulators(self._by_layer(self.accumulators)):
            for x in inputs:
                for accumulator in self.accumulators.values():
                    accumulator.includes_all_sizes = accumulator.includes_all_sizes or not can_slice_examples(x)
                self._network(x.clone())

    def pass_several_at_once(self, inputs: Iterable[Inputs]) -> None:
        """Pass mini-batches (m, ...) of one shape, several at once where that gives the same moments.

        The moments of the first few are computed both ways. If they differ, or the network does not support such a
        pass, as where it does not treat examples independently, each mini-batch is passed alone.
        """
        batches = iter(inputs)
        first = next(batches, None)
        if first is None:
            return
        size = self._choose_number_at_once(first)
        tensors = [x for x in chain([first], islice(batches, size - 1)) if isinstance(x, Tensor)]
        self.pass_each(tensors or [first])
        if not self._can_pass_at_once(tensors):
            self.pass_each(batches)
            return
        while group := [x for x in islice(batches, size) if isinstance(x, Tensor)]:
            self._pass_at_once(group, self.accumulators)

    def compute_moments(self, name: str) -> LayerMoments:
        """Return the moments of a layer that a mini-batch reached."""
        return self._average(name, self.accumulators[name])

    def _make_accumulators(self) -> dict[str, MomentAccumulator]:
        accumulators = {name: MomentAccumulator(in_evaluation=True) for name in self._layers}
        for name, accumulator in accumulators.items():
            accumulator.name = name
        return accumulators

    def _by_layer(self, accumulators: Accumulators) -> dict[Normalization, MomentAccumulator]:
        return {layer: accumulators[name] for name, layer in self._layers.items()}

    def _average(self, name: str, accumulator: MomentAccumulator) -> LayerMoments:
        layer = self._layers[name]
        return accumulator.averaged_moments(
            has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
        )

    def _choose_number_at_once(self, first: Inputs) -> int:
        """Return how many mini-batches are passed at once: 1 for inputs or methods that do not support more."""
        if not isinstance(first, Tensor) or any(
            layer.method.computes_statistics_from_weights for layer in self._layers.values()
        ):
            return 1
        limit = _LARGEST_ACTIVATION_ON_CPU if first.device.type == "cpu" else MEMORY_LIMIT
        number = choose_chunk_sizes(self._network, first, 1, limit).groups
        return 1 if number < _FEWEST_MINI_BATCHES else min(number, _MOST_MINI_BATCHES)

    def _can_pass_at_once(self, group: list[Tensor]) -> bool:
        """Return whether a pass of all mini-batches of `group`, which are all so far, gives the moments so far."""
        if len(group) < 2:
            return False
        accumulators = self._make_accumulators()
        try:
            self._pass_at_once(group, accumulators)
        except (ModelError, RuntimeError, TypeError, ValueError):
            return False
        return all(
            self._are_close(name, accumulator, self.accumulators[name]) for name, accumulator in accumulators.items()
        )

    def _are_close(self, name: str, first: MomentAccumulator, second: MomentAccumulator) -> bool:
        if first.is_empty or second.is_empty:
            return first.is_empty and second.is_empty
        moments, expected = self._average(name, first), self._average(name, second)
        pairs = [(moments.batch, expected.batch), (moments.feature, expected.feature)]
        return all(a is not None and b is not None and a.is_close_to(b, _TOLERANCE) for a, b in pairs if a or b)

    def _pass_at_once(self, group: list[Tensor], accumulators: Accumulators) -> None:
        method = method_covering_all_layers(self._layers)
        plan = EnumerationPlan((InferenceRow(mini_batch_configuration_of(method), None),), {})
        layout = BatchLayout(plan, len(group), len(group[0]))
        with attach_accumulators(self._by_layer(accumulators)):
            self._network(tag_with_rows(torch.cat(group), layout, 1))
