"""Probes of a trained network: other mini-batch sizes, and other compositions of the mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import EvaluationKey, ProbeResult
from bln_search.data.lazy_images import Examples, select_examples
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.scoring import cross_entropy_and_prediction
from bln_search.evaluation.split_evaluation import outcomes_or_undefined_reasons
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.tasks.task import CLASSIFICATION, Task

_Outcomes = dict[InferenceRow, ExampleOutcomes]
"""The results of the rows that are defined; those of a classification have predicted classes as correctness."""


@dataclass(frozen=True)
class ValidationProbe:
    """Probes of a trained network on the validation split.

    Attributes:
        network: the trained network.
        inputs: of the validation split.
        targets: of the validation split.
        rows: the rows.
        populations: population values of each layer under each estimate.
        task: of the network.
        memory_limit: bytes of the largest activation.
    """

    network: nn.Module
    inputs: Examples
    targets: Tensor
    rows: Sequence[InferenceRow]
    populations: Populations
    task: Task = CLASSIFICATION
    memory_limit: int = MEMORY_LIMIT

    def probe_at_batch_size(
        self, batch_size: int, *, kind: ProbeKind = ProbeKind.SIZE, epoch: int = 0
    ) -> list[ProbeResult]:
        """Evaluate all rows that are defined at an inference mini-batch size. kind and epoch: for the record."""
        return [
            ProbeResult(
                kind,
                epoch,
                _probe_key(row, batch_size),
                len(self.targets),
                float(outcomes.losses.mean(dtype=np.float64)),
                self._find_accuracy(outcomes.correct),
            )
            for row, outcomes in self._evaluate(self.inputs, self.targets, batch_size).items()
            if np.isfinite(outcomes.losses).all()
        ]

    def probe_batch_composition(self, batch_size: int, *, reshuffles: int, seed: int) -> list[ProbeResult]:
        """Measure the dependence of losses and predictions on the mini-batch composition.

        The examples are assigned to mini-batches in `reshuffles` random orders. In a classification they are once
        sorted by class, too, so that most mini-batches hold one class; flips are changes of the predicted class
        relative to the order of the data, averaged over the passes.

        Args:
            batch_size: the inference mini-batch size.
            reshuffles: number of random orders.
            seed: of the random orders.
        """
        reference = self._evaluate(self.inputs, self.targets, batch_size)
        generator, n = torch.Generator().manual_seed(seed), len(self.targets)
        orders = [(ProbeKind.RESHUFFLED, torch.randperm(n, generator=generator)) for _ in range(reshuffles)]
        if self.task.predicts_classes:
            mixed = torch.randperm(n, generator=generator)
            by_class = torch.argsort(self.targets.cpu()[mixed], stable=True)
            orders.append((ProbeKind.SKEWED, mixed[by_class]))
        statistics = {(row, kind): _CompositionStatistics(n) for row in reference for kind, _ in orders}
        for kind, order in orders:
            inverse, on_device = torch.argsort(order).numpy(), order.to(self.targets.device)
            inputs, targets = select_examples(self.inputs, on_device), self.targets[on_device]
            for row, outcomes in self._evaluate(inputs, targets, batch_size).items():
                correct = outcomes.correct[inverse]
                flips = float((correct != reference[row].correct).mean()) if self.task.predicts_classes else None
                statistics[row, kind].add(outcomes.losses[inverse], self._find_accuracy(correct), flips)
        return [
            of_row.to_probe(kind, _probe_key(row, batch_size))
            for (row, kind), of_row in statistics.items()
            if np.isfinite(of_row.mean).all()
        ]

    def _find_accuracy(self, correct: NDArray[np.generic]) -> float | None:
        """Return the fraction of correct predictions in the order of the data; None for a task without accuracy."""
        if self.task.predicts_classes:
            correct = correct == self.targets.cpu().numpy()
        return float(correct.mean()) if self.task.description.has_accuracy else None

    def _evaluate(self, inputs: Examples, targets: Tensor, batch_size: int) -> _Outcomes:
        results = outcomes_or_undefined_reasons(
            self.network,
            iter_mini_batches_with_fillers(inputs, targets, batch_size),
            self.rows,
            self.populations,
            batch_size=batch_size,
            score=cross_entropy_and_prediction if self.task.predicts_classes else self.task.score,
            memory_limit=self.memory_limit,
        )
        return {
            row: result for row, result in zip(self.rows, results, strict=True) if isinstance(result, ExampleOutcomes)
        }


class _CompositionStatistics:
    """Running statistics of one row over passes with other mini-batch compositions."""

    def __init__(self, examples: int) -> None:
        self.passes = 0
        self.accuracies: list[float | None] = []
        self.flips: list[float | None] = []
        self.mean, self.squares = np.zeros(examples), np.zeros(examples)

    def add(self, losses: NDArray[np.floating], accuracy: float | None, flips: float | None) -> None:
        """Add a pass; squared deviations from the mean by Welford's algorithm."""
        self.passes += 1
        difference = losses.astype(np.float64) - self.mean
        self.mean += difference / self.passes
        self.squares += difference * (losses - self.mean)
        self.accuracies.append(accuracy)
        self.flips.append(flips)

    def to_probe(self, kind: ProbeKind, key: EvaluationKey) -> ProbeResult:
        deviation = float(np.sqrt(self.squares.mean() / (self.passes - 1))) if self.passes > 1 else None
        accuracy, flips = _mean_or_none(self.accuracies), _mean_or_none(self.flips)
        return ProbeResult(kind, 0, key, len(self.mean), float(self.mean.mean()), accuracy, deviation, flips)


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if len(present) == len(values) else None


def _probe_key(row: InferenceRow, batch_size: int) -> EvaluationKey:
    return EvaluationKey(row.configuration, row.estimate, batch_size, Split.VALIDATION)
