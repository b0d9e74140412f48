"""The interface of an evaluator of per-layer configurations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.core.records import ExampleOutcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.tree.configuration_space import ExcludedOptions, PerLayerEvaluatorOptions
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork
from bln_search.evaluation.tree.running_score_sums import RunningScoreSums
from bln_search.evaluation.tree.trie import Digits
from bln_search.norms.row_batching.row_tensor import Populations


class PerLayerEvaluator(Protocol):
    """A network and the mini-batches on which its per-layer configurations are evaluated.

    `TreePerLayerEvaluator` and `PlainPerLayerEvaluator` implement it.

    Attributes:
        network: the network.
        segmented: the normalization layers of the network in call order, and its segments, if it can be split.
        batches: mini-batches on which configurations are evaluated.
        populations: population values of each layer under each estimate.
        options: of the evaluator.
        space: the options of each choice.
        excluded: the undefined options of each choice, with their reasons.
        max_configurations: size of the largest space that `enumerate` accepts.
    """

    network: nn.Module
    segmented: SegmentedNetwork
    batches: list[MiniBatch]
    populations: Populations
    options: PerLayerEvaluatorOptions
    space: ConfigurationSpace
    excluded: ExcludedOptions
    max_configurations: int

    @property
    def example_counts_by_batch(self) -> list[int]:
        """Number of examples with a target in each mini-batch, in the order of the data."""

    @property
    def num_examples(self) -> int:
        """Number of examples with a target."""

    def sum_scores_of_all_configurations(
        self, *, sums: RunningScoreSums | None = None, keep: Callable[[RunningScoreSums], None] | None = None
    ) -> RunningScoreSums:
        """Return mean loss and accuracy of every configuration."""

    def check_against_plain_passes(self) -> None:
        """Raise ModelError where losses differ from those of plain forward passes."""

    def score_sums_by_batch(
        self, digits: Digits, batches: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return sums of losses and numbers of correct answers, (configurations, mini-batches)."""

    def evaluate_per_example(self, digits: Digits | Sequence[Sequence[int]]) -> list[ExampleOutcomes]:
        """Return per-example losses and correctness of each of these configurations."""

    def make_evaluator_with_same_options(
        self, network: nn.Module, batches: Sequence[MiniBatch], populations: Populations
    ) -> Self:
        """Return an evaluator of another network, mini-batches and populations with the same options."""
