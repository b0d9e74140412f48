"""Evaluation that reads the validation split in stages until the recommendation is decided.

Each stage reads further mini-batches in a random order, the same for all networks. Each look at the results spends its
share of the error rate (`level_of_stage`). Rows that are significantly worse leave, except the row in use. A look at
mini-batches that differ by more than chance, as those of data sorted by class, would underestimate variances: it
decides nothing, and everything else is read in one stage.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bln_search.api.compiled import run_compiled_networks_eagerly
from bln_search.api.inputs.evaluation_data import Condition, LoadersByCondition
from bln_search.api.network_evaluation import ConditionMeasurements, LoadedSplit, NetworkEvaluator
from bln_search.api.ranked.several_networks import rank_means_over_networks
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.enums import Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import Evaluation
from bln_search.core.states import EvaluationState
from bln_search.data.inputs import map_tensors
from bln_search.evaluation.split_outcomes import join_outcomes
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.ranking.comparison import Verdict
from bln_search.ranking.looks import StagedReading, level_of_stage
from bln_search.ranking.statistics.batch_variance import do_mini_batches_differ

StopName = Literal["decided"]

STAGES = 1 / 8, 1 / 4, 1 / 2
"""Parts of the mini-batches after which the results are looked at, before the whole split."""

SMALLEST_STAGE = 100
"""Number of examples below which there is no look: few losses are far from normally distributed."""


def check_stop(
    stop: object,
    conditions: LoadersByCondition,
    metrics: object,
    batch_sizes: Sequence[int] | None,
) -> None:
    """Raise ValueError unless `stop` is None, or `decided` with arguments that it supports."""
    if stop is None:
        return
    if stop != "decided":
        raise ValueError(f"stop is None or 'decided', not {stop!r}")
    refused = [
        *(["conditions (validation_loader is a dictionary)"] if None not in conditions else []),
        *(["metrics="] if metrics else []),
        *(["several batch_sizes="] if batch_sizes is not None and len(set(batch_sizes)) > 1 else []),
    ]
    if refused:
        raise ValueError(
            f"stop='decided' compares losses on one validation split at one mini-batch size, without "
            f"{', '.join(refused)}: leave them out, or evaluate without stop="
        )


class _StagedNetwork:
    """One network with its validation split and the outcomes of the stages so far."""

    def __init__(self, evaluator: NetworkEvaluator, condition: Condition) -> None:
        self._evaluator, self._condition = evaluator, condition
        self._prepared = evaluator.prepare_rows()
        self._measured = ConditionMeasurements()
        self.split = evaluator.load_validation_split(condition, self._measured.classes)
        self._parts: dict[InferenceRow, list[ExampleOutcomes]] = {row: [] for row in self._prepared.rows}
        self._undefined: dict[InferenceRow, str] = {}

    def evaluate_stage(self, batches: Sequence[int], left: Mapping[InferenceRow, str]) -> None:
        """Evaluate the rows that have not left, and have losses, on further mini-batches."""
        rows = self._list_rows_with_losses(left)
        results = self._evaluator.evaluate_batches_of_split(self.split, batches, rows, self._prepared)
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, str):
                self._undefined[row] = result
            else:
                self._parts[row].append(result)

    def _list_rows_with_losses(self, left: Mapping[InferenceRow, str]) -> list[InferenceRow]:
        """The rows that have not left, and have finite losses so far."""
        return [
            row
            for row, parts in self._parts.items()
            if row not in left and row not in self._undefined and all(np.isfinite(part.losses).all() for part in parts)
        ]

    def join_losses_of_rows(self, left: Mapping[InferenceRow, str]) -> NDArray[np.float64]:
        """Losses of the rows with losses that have not left, in the order of reading, (rows, examples)."""
        parts = (self._parts[row] for row in self._list_rows_with_losses(left))
        return np.array([np.concatenate([part.losses for part in of_row]) for of_row in parts], np.float64)

    @property
    def counted_examples(self) -> int:
        """Number of examples that count in every row; 0 if no row has losses."""
        return max((sum(len(p.losses) - p.left_out for p in parts) for parts in self._parts.values()), default=0)

    def rank_rows(
        self, read: NDArray[np.intp], left: Mapping[InferenceRow, str], reading: StagedReading
    ) -> RankedConfigurations:
        """The table of the examples of these mini-batches, in the order of reading. left: with the reason."""
        self._measured.evaluations[:] = self._evaluate_rows(read, left)
        return self._evaluator.make_table(self._condition, self._prepared, self._measured, reading)

    def _evaluate_rows(self, read: NDArray[np.intp], left: Mapping[InferenceRow, str]) -> list[Evaluation]:
        positions = _positions_of_examples(self.split, read)
        results: list[ExampleOutcomes | str] = []
        for row in self._prepared.rows:
            parts = self._parts[row]
            examples = sum(len(part.losses) for part in parts)  # of the first stages
            joined = None if row in self._undefined else join_outcomes(parts, np.argsort(positions[:examples]))
            results.append(self._undefined[row] if joined is None else joined)
        evaluations = self._evaluator.make_validation_evaluations(self.split, self._prepared.rows, results)
        return [
            replace(evaluation, reason=left[row])
            if row in left and evaluation.state is EvaluationState.MEASURED
            else evaluation
            for row, evaluation in zip(self._prepared.rows, evaluations, strict=True)
        ]

    def add_test_split(self, rows: set[InferenceRow], reading: StagedReading) -> RankedConfigurations:
        """The latest table with the test split, evaluated in these rows."""
        chosen = [row for row in self._prepared.rows if row in rows]
        if self._condition.test is not None:
            self._evaluator.evaluate_split_into(
                self._measured, Split.TEST, self._condition.test, chosen, self._prepared
            )
        return self._evaluator.make_table(self._condition, self._prepared, self._measured, reading)


@run_compiled_networks_eagerly()
def evaluate_until_decided(
    evaluators: Sequence[NetworkEvaluator], condition: Condition, fingerprints: tuple[str, ...]
) -> RankedConfigurations:
    """Evaluate networks on the validation split stage by stage, until the recommendation is decided.

    Raises:
        DataError: A loader does not yield the same examples for each network.
    """
    networks = [_StagedNetwork(evaluator, condition) for evaluator in evaluators]
    for network in networks[1:]:
        network.split = _share_batches(networks[0].split, network.split)
    batches = networks[0].split.batches
    order = np.random.default_rng(0).permutation(len(batches))
    sizes = np.array([len(batches[position][1]) for position in order])
    read = np.cumsum(sizes)
    total, ends = int(read[-1]), _find_ends_of_stages(read)
    start = looked_at = 0
    left: dict[InferenceRow, str] = {}
    while True:
        end = next(end for end in ends if end > start)
        for network in networks:
            network.evaluate_stage(order[start:end].tolist(), left)
        start, examples = end, int(read[end - 1])
        if examples < total and _do_values_of_batches_differ(networks[0], order[:end], sizes[:end], left):
            warnings.warn(
                f"{networks[0].split.loader} yields mini-batches that differ by more than chance, as of sorted data. A "
                "part of them decides nothing, so all are read: shuffle the data, or evaluate without stop=",
                stacklevel=4,
            )
            ends = [len(order)]
            continue
        if examples < total and any(network.counted_examples < SMALLEST_STAGE for network in networks):
            continue
        reading = StagedReading(examples, total, level_of_stage(looked_at, examples, total))
        looked_at = examples
        table = rank_means_over_networks(
            [network.rank_rows(order[:end], left, reading) for network in networks], fingerprints
        )
        worse = _list_worse_rows(table)
        is_decided = table.recommendation is not None and table.recommendation.verdict is not Verdict.CANNOT_TELL
        if is_decided or examples == total:
            ranked = {InferenceRow(row.configuration, row.estimate) for row in table.board.rows if row.rank}
            reading = replace(reading, is_decided=is_decided)
            tables = [network.add_test_split(ranked - worse, reading) for network in networks]
            return rank_means_over_networks(tables, fingerprints)
        left |= dict.fromkeys(worse, f"worse after {examples:,} of {total:,} examples")


def _find_ends_of_stages(read: NDArray[np.intp]) -> list[int]:
    """Numbers of mini-batches after which the results are looked at. read: number of examples after each of them."""
    parts = [int(np.ceil(part * len(read))) for part in STAGES]
    return [end for end in dict.fromkeys(parts) if end < len(read) and read[end - 1] >= SMALLEST_STAGE] + [len(read)]


def _list_worse_rows(table: RankedConfigurations) -> set[InferenceRow]:
    """Rows that are significantly worse than the best one, by more than the margin, except the row in use.

    A row that is worse by less may be recommended, because it is independent of the mini-batch or cheaper.
    """
    comparison = table.comparison
    if comparison is None:
        return set()
    worse = (row.key for row in comparison.rows if row.is_worse and row.above_best.low > comparison.margin)
    return {InferenceRow(key.configuration, key.estimate) for key in worse} - {table.deployed}


def _do_values_of_batches_differ(
    network: _StagedNetwork, read: NDArray[np.intp], sizes: NDArray[np.intp], left: Mapping[InferenceRow, str]
) -> bool:
    """Whether the targets or the losses of the mini-batches that were read differ by more than chance."""
    targets = torch.cat([network.split.batches[position][1] for position in read])
    losses = network.join_losses_of_rows(left)
    values = [targets.double().reshape(len(targets), -1).mean(1).cpu().numpy()]
    values += [losses.mean(axis=0)] if len(losses) else []
    return any(do_mini_batches_differ(value, sizes) for value in values)


def _share_batches(first: LoadedSplit, other: LoadedSplit) -> LoadedSplit:
    """The split of another network with the mini-batches of the first one, on its own device."""
    device = other.batches[0][1].device
    if first.batches[0][1].device == device:
        return replace(other, batches=first.batches)
    moved = [(map_tensors(lambda x: x.to(device), inputs), targets.to(device)) for inputs, targets in first.batches]
    return replace(other, batches=moved)


def _positions_of_examples(split: LoadedSplit, batches: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions of the examples of these mini-batches in the split."""
    ranges = list(pairwise(np.cumsum([0, *(len(targets) for _, targets in split.batches)])))
    return np.concatenate([np.arange(*ranges[position]) for position in batches])
