"""Evaluation of the per-layer configurations of a network by tree traversal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.data.inputs import have_same_shape, require_single_tensor
from bln_search.evaluation.batches import MiniBatch, group_adjacent_batches
from bln_search.evaluation.chunking import retain_freed_memory
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork, split_at_norms
from bln_search.evaluation.tree.per_layer_evaluator import GroupSums, PerLayerEvaluator
from bln_search.evaluation.tree.prefix_cache import ActivationPrefixCache
from bln_search.evaluation.tree.score_sums import BYTES_OF_SUMS, BatchScoreSums, ExampleScores
from bln_search.evaluation.tree.segment_memory import choose_chunk_bytes, measure_memory_of_all_segments
from bln_search.evaluation.tree.traversal import OnLosses, TreeTraversal
from bln_search.evaluation.tree.trie import (
    ConfigurationTrie,
    Digits,
    build_configuration_trie,
    digits_of_all_configurations,
    sorted_unique_configurations_with_inverse,
)
from bln_search.evaluation.tree.verification import check_sample_against_plain_passes
from bln_search.norms.network.layers import evaluation_mode
from bln_search.norms.row_batching.parallel import count_independent_threads, map_in_threads
from bln_search.norms.row_batching.row_tensor import Populations

MAX_CONFIGURATIONS = 2**24
"""Size of the largest space that is enumerated: its sums alone take half a gigabyte with two folds."""


class TreePerLayerEvaluator(PerLayerEvaluator):
    """Evaluates per-layer configurations of a network by tree traversal.

    Args:
        network: the network.
        batches: mini-batches, usually of one size.
        populations: population values of each layer under each estimate.
        options: of the evaluator.
        folds: the fold of each mini-batch; None for one fold.
        space: a subspace with fewer options; None for the whole space.

    Raises:
        ModelError: the network cannot be split at its normalization layers.
        DataError: there is no mini-batch.
    """

    max_configurations = MAX_CONFIGURATIONS

    def __init__(
        self,
        network: nn.Module,
        batches: Sequence[MiniBatch],
        populations: Populations,
        options: PerLayerEvaluatorOptions | None = None,
        *,
        folds: Sequence[int] | None = None,
        space: ConfigurationSpace | None = None,
    ) -> None:
        super().__init__(network, batches, populations, options, folds=folds)
        self._order = sorted(self._order, key=self._folds.__getitem__)
        self.batches = [self.batches[index] for index in self._order]
        self._folds = [self._folds[index] for index in self._order]
        self.space = self.space if space is None else space
        retain_freed_memory()
        device = self._example.device
        self._threads = self._choose_threads(device)
        self._bytes_of_thread = self.options.memory_limit // self._threads
        self._chunk_bytes = choose_chunk_bytes(self._bytes_of_thread, device)
        self._is_checked = False
        self._cache = ActivationPrefixCache(self.options.memory_limit)
        self._traversal = TreeTraversal(
            self.segmented,
            self.space,
            populations,
            self.options.estimate,
            score=self.options.score,
            memory_plan=self._memory_plan,
            chunk_bytes=self._chunk_bytes,
            path_bytes=self._bytes_of_thread,
        )

    def _split_network(self) -> SegmentedNetwork:
        self._example = require_single_tensor(self.batches[0][0])
        with evaluation_mode(self.network):
            segmented = split_at_norms(self.network)
            self._memory_plan = measure_memory_of_all_segments(segmented, self._example)
        return segmented

    def _choose_threads(self, device: torch.device) -> int:
        """Return the number of groups of mini-batches that are evaluated at the same time, one by each thread.

        It is one on GPUs, and where one path of each thread, or its sums, would exceed the memory limit.
        """
        threads = count_independent_threads() if device.type == "cpu" else 1
        bytes_of_thread = max(*self._memory_plan.path_bytes, BYTES_OF_SUMS * self.space.num_configurations)
        return threads if threads * bytes_of_thread <= self.options.memory_limit else 1

    def _iter_sums_of_all_configurations(self, start: int) -> Iterator[list[GroupSums]]:
        trie = build_configuration_trie(digits_of_all_configurations(self.space))
        for fold in sorted(set(self._folds)):
            first, stop = self._folds.index(fold), len(self._folds) - self._folds[::-1].index(fold)
            for groups in self._iter_simultaneous_groups(range(max(first, start), stop)):
                with evaluation_mode(self.network):  # of all threads: each restores the mode that it found
                    sums = map_in_threads(partial(self._sum_scores, trie), groups)
                yield [(group, *of_group) for group, of_group in zip(groups, sums, strict=True)]

    def _sum_scores(
        self, trie: ConfigurationTrie, group: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        sums = BatchScoreSums(len(trie), len(group), self._example.device)
        self._traverse_batches(trie, group, sums)
        return sums.losses.sum(1).cpu().numpy(), sums.correct.sum(1).cpu().numpy()

    def check_against_plain_passes(self) -> None:
        """Compare a few configurations with plain forward passes, once. Raises ModelError where they differ."""
        if not self._is_checked:
            check_sample_against_plain_passes(self)
            self._is_checked = True

    def score_sums_by_batch(
        self, digits: Digits, batches: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return sums of losses and numbers of correct answers of these configurations in each of these mini-batches.

        Both are (configurations, mini-batches), in the given orders. Activations after prefixes that configurations
        share with earlier ones come from the cache.
        """
        unique, inverse = sorted_unique_configurations_with_inverse(
            np.asarray(digits, np.uint8).reshape(-1, len(self.space.choices))
        )
        positions = np.argsort(self._order)
        losses = np.empty((len(unique), len(batches)))
        correct = np.empty((len(unique), len(batches)), np.int64)
        start = 0
        for group in self._iter_groups_of_batches([int(positions[batch]) for batch in batches]):
            columns = slice(start, start + len(group))
            for part, rows in self._iter_by_cached_prefix(unique, group):
                batch_sums = BatchScoreSums(len(part), len(group), self._example.device)
                self._traverse_batches(build_configuration_trie(part), group, batch_sums, use_cache=True)
                losses[rows, columns] = batch_sums.losses.cpu().numpy()
                correct[rows, columns] = batch_sums.correct.cpu().numpy()
            start += len(group)
        return losses[inverse], correct[inverse]

    def evaluate_per_example(self, digits: Digits | Sequence[Sequence[int]]) -> list[ExampleOutcomes]:
        """Return per-example losses and correctness of each of these configurations, in the order of the data."""
        unique, inverse = sorted_unique_configurations_with_inverse(
            np.asarray(digits, np.uint8).reshape(-1, len(self.space.choices))
        )
        scores = ExampleScores(len(unique), self.num_examples, next(self.network.parameters()).dtype)
        trie = build_configuration_trie(unique)
        for group in self._iter_groups_of_batches(range(len(self.batches))):
            self._traverse_batches(trie, group, scores)
            scores.start += sum(len(self.batches[position][1]) for position in group)
        order = self._positions_in_data_order()
        return [ExampleOutcomes(scores.losses[row, order], scores.correct[row, order]) for row in inverse]

    def _positions_in_data_order(self) -> NDArray[np.int64]:
        """Return for each example in the order of the data its position in the order of evaluation."""
        sizes = np.array([len(targets) for _, targets in self.batches])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        positions = np.argsort(self._order)
        return np.concatenate(
            [np.arange(starts[position], starts[position] + sizes[position]) for position in positions]
        )

    @torch.no_grad()
    def _traverse_batches(
        self, trie: ConfigurationTrie, positions: Sequence[int], on_losses: OnLosses, *, use_cache: bool = False
    ) -> None:
        batches = [self.batches[position] for position in positions]
        (group,) = group_adjacent_batches(batches, len(batches))
        with evaluation_mode(self.network):
            self._traversal.traverse_and_report_losses(
                group,
                trie,
                on_losses,
                self._cache.view_of_group(tuple(positions)) if use_cache else None,
                accepts_sums=isinstance(on_losses, BatchScoreSums),
            )

    def _iter_simultaneous_groups(self, positions: Sequence[int]) -> Iterator[list[list[int]]]:
        """Yield groups of mini-batches that are evaluated at the same time, one by each thread."""
        most_sums = max(1, self._bytes_of_thread // (BYTES_OF_SUMS * self.space.num_configurations))
        most_of_group = min(self._most_batches_of_group, most_sums)
        rounds = -(-len(positions) // (self._threads * most_of_group))
        size = max(1, -(-len(positions) // max(1, self._threads * rounds)))
        groups = self._iter_groups_of_batches(positions, size)
        while simultaneous := list(islice(groups, self._threads)):
            yield simultaneous

    @property
    def _most_batches_of_group(self) -> int:
        most_options = max(self.space.num_options_per_choice)  # the first layers may be fixed
        return max(1, self._chunk_bytes // (self._memory_plan.path_bytes[1] * most_options))

    def _iter_groups_of_batches(self, positions: Sequence[int], max_size: int | None = None) -> Iterator[list[int]]:
        """Yield adjacent mini-batches of one shape that are evaluated together; one with filler examples is alone."""
        max_size = max_size or self._most_batches_of_group
        group: list[int] = []
        for position in positions:
            inputs, targets = self.batches[position]
            has_filler = len(targets) < len(inputs)
            differs = bool(group) and not have_same_shape(inputs, self.batches[group[-1]][0])
            if group and (has_filler or differs or len(group) == max_size or position != group[-1] + 1):
                yield group
                group = []
            group.append(position)
            if has_filler:
                yield group
                group = []
        if group:
            yield group

    def _iter_by_cached_prefix(
        self, digits: Digits, group: Sequence[int]
    ) -> Iterator[tuple[Digits, NDArray[np.int64]]]:
        """Yield configurations grouped by their longest cached prefix, with their positions in `digits`."""
        cache = self._cache.view_of_group(tuple(group))
        parts: dict[tuple[int, ...], list[int]] = {}
        for position, row in enumerate(digits):
            prefix = tuple(int(digit) for digit in row)
            depth = next((depth for depth in range(len(row), 0, -1) if cache.has_prefix(prefix[:depth])), 0)
            parts.setdefault(prefix[:depth], []).append(position)
        for rows in parts.values():
            yield digits[rows], np.asarray(rows)
