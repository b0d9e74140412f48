"""A network and the mini-batches on which its per-layer configurations are evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bln_search.core.errors import DataError, ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions, build_space_and_excluded_options
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork
from bln_search.evaluation.tree.score_sums import RunningScoreSums
from bln_search.evaluation.tree.trie import Digits
from bln_search.norms.row_batching.row_tensor import Populations

GroupSums = tuple[Sequence[int], NDArray[np.float64], NDArray[np.int64]]
"""Positions of mini-batches of one fold, with the sums of losses and of correct answers of every configuration."""


class PerLayerEvaluator(ABC):
    """A network and the mini-batches on which its per-layer configurations are evaluated.

    Attributes:
        network: the network.
        segmented: the normalization layers of the network in call order, and its segments, if it can be split.
        batches: mini-batches in the order of evaluation.
        populations: population values of each layer under each estimate.
        options: of the evaluator.
        space: the options of each choice.
        excluded: the undefined options of each choice, with their reasons.
        max_configurations: size of the largest space that is enumerated.

    Raises:
        DataError: there is no mini-batch, or not one fold for each.
    """

    max_configurations: int
    segmented: SegmentedNetwork
    how_enumerated = ""

    def __init__(
        self,
        network: nn.Module,
        batches: Sequence[MiniBatch],
        populations: Populations,
        options: PerLayerEvaluatorOptions | None = None,
        *,
        folds: Sequence[int] | None = None,
    ) -> None:
        if not batches:
            raise DataError("there is nothing to evaluate: the data has no mini-batch")
        if folds is not None and len(folds) != len(batches):
            raise DataError(f"there are {len(batches)} mini-batches and folds for {len(folds)}: give one for each")
        self.network, self.populations, self.options = network, populations, options or PerLayerEvaluatorOptions()
        self.batches, self._folds = list(batches), list(folds or [0] * len(batches))
        self._order = list(range(len(batches)))
        """For each mini-batch in the order of evaluation, its index in the order of the data."""
        self.segmented = self._split_network()
        self.space, self.excluded = build_space_and_excluded_options(
            self.segmented,
            populations,
            self.options.estimate,
            len(batches[0][0]),
            scope=self.options.scope,
            groups=self.options.groups,
            others=self.options.others,
        )

    @property
    def example_counts_by_batch(self) -> list[int]:
        """Number of examples with a target in each mini-batch, in the order of the data."""
        return [len(self.batches[position][1]) for position in np.argsort(self._order)]

    @property
    def num_examples(self) -> int:
        """Number of examples with a target."""
        return sum(len(targets) for _, targets in self.batches)

    def sum_scores_of_all_configurations(
        self, *, sums: RunningScoreSums | None = None, keep: Callable[[RunningScoreSums], None] | None = None
    ) -> RunningScoreSums:
        """Return mean loss and accuracy of every configuration, in the order of their indices.

        Args:
            sums: sums of an interrupted call, which this call continues.
            keep: called with the sums so far after groups of mini-batches, one of each thread.

        Raises:
            ModelError: there are more than `max_configurations`, or losses differ from those of plain forward passes.
        """
        count = self.space.num_configurations
        if count > self.max_configurations:
            raise ModelError(
                f"there are {count:,} per-layer configurations, more than the {self.max_configurations:,} that are "
                f"enumerated{self.how_enumerated}: search them (beam, coordinate, tpe or racing), or tie layers "
                "together in groups"
            )
        self.check_against_plain_passes()
        total = sums if sums is not None else RunningScoreSums.zeros(max(self._folds) + 1, count)
        total.total = len(self.batches)
        for groups in self._iter_sums_of_all_configurations(total.done):
            for positions, losses, correct in groups:
                fold = self._folds[positions[0]]
                total.losses[fold] += losses
                total.correct[fold] += correct
                total.examples[fold] += sum(len(self.batches[position][1]) for position in positions)
                total.done = positions[-1] + 1
            if keep is not None:
                keep(total)
        return total

    def make_evaluator_with_same_options(
        self, network: nn.Module, batches: Sequence[MiniBatch], populations: Populations
    ) -> Self:
        """Return an evaluator of another network, mini-batches and populations with the same options.

        Raises:
            ModelError: these mini-batches reach other normalization layers.
        """
        other = type(self)(network, batches, populations, self.options)
        if other.segmented.names != self.segmented.names:
            raise ModelError(
                f"mini-batches of one split reach the normalization layers {', '.join(self.segmented.names)}, those of "
                f"another {', '.join(other.segmented.names)}: per-layer configurations need the same layers"
            )
        return other

    @abstractmethod
    def _split_network(self) -> SegmentedNetwork:
        """Return the normalization layers of the network, and its segments, if it can be split."""

    @abstractmethod
    def _iter_sums_of_all_configurations(self, start: int) -> Iterator[list[GroupSums]]:
        """Yield the sums over groups of mini-batches, from the position `start` on."""

    @abstractmethod
    def check_against_plain_passes(self) -> None:
        """Raise ModelError where losses differ from those of plain forward passes."""

    @abstractmethod
    def score_sums_by_batch(
        self, digits: Digits, batches: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return sums of losses and numbers of correct answers, (configurations, mini-batches), in the given orders."""

    @abstractmethod
    def evaluate_per_example(self, digits: Digits | Sequence[Sequence[int]]) -> list[ExampleOutcomes]:
        """Return per-example losses and correctness of each of these configurations, in the order of the data."""
