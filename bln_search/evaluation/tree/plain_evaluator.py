"""Evaluation of per-layer configurations one by one with plain forward passes, for networks that cannot be split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.isolated_passes import IsolatedPasses
from bln_search.evaluation.row_evaluator import require_output_tensor
from bln_search.evaluation.scoring import score_examples
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork, check_no_norms_in_recurrent_layers
from bln_search.evaluation.tree.per_layer_evaluator import GroupSums, PerLayerEvaluator
from bln_search.evaluation.tree.trie import Digits, digits_of_all_configurations
from bln_search.evaluation.tree.verification import use_per_layer_configuration
from bln_search.norms.network.layer_calls import collect_called_layers
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, use_training_sources_in_evaluation

MAX_PLAIN_CONFIGURATIONS = 4_096
"""Size of the largest space that is enumerated with plain forward passes."""

_Scores = tuple[NDArray[np.floating[Any]], NDArray[np.bool_]]


class PlainPerLayerEvaluator(PerLayerEvaluator):
    """Evaluates per-layer configurations one by one.

    Scores are cached up to the memory limit. `segmented` has no segments, only the layers in the order in which forward
    passes of the mini-batches call them. Every configuration is evaluated as if it ran alone: where passes change the
    network or draw random numbers, it passes all mini-batches in their order.
    """

    max_configurations = MAX_PLAIN_CONFIGURATIONS
    how_enumerated = " one by one"

    def _split_network(self) -> SegmentedNetwork:
        self._passes = IsolatedPasses(self.network)
        self._cache: dict[tuple[bytes, int], _Scores] = {}
        self._cache_bytes = 0
        return _make_segmented_network_without_segments(self.network, self.batches, self._passes)

    def check_against_plain_passes(self) -> None:
        """Do nothing: plain forward passes are the reference."""

    def _iter_sums_of_all_configurations(self, start: int) -> Iterator[list[GroupSums]]:
        digits = digits_of_all_configurations(self.space)
        for batch in range(start, len(self.batches)):
            losses, correct = self.score_sums_by_batch(digits, [batch])
            yield [([batch], losses[:, 0], correct[:, 0])]

    def score_sums_by_batch(
        self, digits: Digits, batches: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return sums of losses and numbers of correct answers, (configurations, mini-batches), in the given orders."""
        rows = [list(self._iter_scores_of_batches(row, batches)) for row in np.asarray(digits, np.uint8)]
        losses = [[losses.sum(dtype=np.float64) for losses, _ in row] for row in rows]
        return np.array(losses), np.array([[correct.sum() for _, correct in row] for row in rows], np.int64)

    def evaluate_per_example(self, digits: Digits | Sequence[Sequence[int]]) -> list[ExampleOutcomes]:
        """Return per-example losses and correctness of each of these configurations, in the order of the data."""
        outcomes = []
        for row in np.asarray(digits, np.uint8).reshape(-1, len(self.space.choices)):
            losses, correct = zip(*self._iter_scores_of_batches(row, range(len(self.batches))), strict=True)
            outcomes.append(ExampleOutcomes(np.concatenate(losses), np.concatenate(correct)))
        return outcomes

    @torch.no_grad()
    def _iter_scores_of_batches(self, row: Digits, batches: Sequence[int]) -> Iterator[_Scores]:
        """Yield losses and correctness of each of these mini-batches under one configuration."""
        key = row.tobytes()
        missing = {batch for batch in batches if (key, batch) not in self._cache}
        computed: dict[int, _Scores] = {}
        if missing:
            depends_on_earlier = self._passes.changes_state or self._passes.draws_numbers
            configuration = self.space.configuration_of_choice_digits([int(digit) for digit in row])
            with (
                evaluation_mode(self.network),
                use_per_layer_configuration(self.segmented, configuration, self.populations, self.options.estimate),
            ):
                computed = {
                    batch: self._score_batch(batch, key)
                    for batch in (range(len(self.batches)) if depends_on_earlier else sorted(missing))
                }
            self._passes.forget_continued_passes(key)
        for batch, scores in computed.items():
            self._add_to_cache((key, batch), scores)
        for batch in batches:
            yield computed[batch] if batch in computed else self._cache[key, batch]

    def _add_to_cache(self, key: tuple[bytes, int], scores: _Scores) -> None:
        size = scores[0].nbytes + scores[1].nbytes
        if key not in self._cache and self._cache_bytes + size <= self.options.memory_limit:
            self._cache[key] = scores
            self._cache_bytes += size

    def _score_batch(self, batch: int, key: bytes) -> _Scores:
        inputs, targets = self.batches[batch]
        with self._passes.pass_of_row(key, is_continued=True):
            outputs = self.network(inputs.clone())
        outputs = require_output_tensor(outputs)
        losses, correct, _ = score_examples(self.options.score, outputs[: len(targets)], targets)
        losses = losses if losses.dtype == torch.float64 else losses.float()
        return losses.cpu().numpy(), correct.cpu().numpy()


@torch.no_grad()
def _make_segmented_network_without_segments(
    network: nn.Module, batches: Sequence[MiniBatch], passes: IsolatedPasses
) -> SegmentedNetwork:
    """Return the normalization layers of `network` in the order in which forward passes call them, without segments.

    Raises:
        ModelError: the forward passes call none, or the network normalizes inside recurrent layers.
    """
    check_no_norms_in_recurrent_layers(network)
    layers = get_norms_by_name(network)
    with (
        collect_called_layers(layers.values()) as called,
        evaluation_mode(network),
        use_training_sources_in_evaluation(layers.values()),
    ):
        for inputs, _ in batches:
            with passes.pass_of_row(None, is_continued=True):
                network(inputs.clone())
    if not called:
        raise ModelError(f"the forward pass of this {type(network).__name__} calls none of its normalization layers")
    order = tuple(name for layer in called for name, named in layers.items() if named is layer)
    return SegmentedNetwork((), order, tuple(layers[name] for name in order), ())
