"""Probes of a trained network: other mini-batch sizes, and other compositions of the mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.records import EvaluationKey, ExampleOutcomes, ProbeResult
from bln_search.data.lazy_images import Examples, select_examples
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.scoring import cross_entropy_and_prediction
from bln_search.evaluation.split_evaluation import outcomes_or_undefined_reasons
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.tasks.task import CLASSIFICATION, Task


@dataclass(frozen=True)
class _ProbeOutcomes:
    """Results of single examples, (n,) each.

    Attributes:
        losses: loss of each example.
        correct: whether its prediction is correct; None for a task without accuracy.
        classes: its predicted class; None for a task without classes.
    """

    losses: NDArray[np.floating]
    correct: NDArray[np.bool_] | None
    classes: NDArray[np.int64] | None

    @property
    def accuracy(self) -> float | None:
        """Fraction of examples whose prediction is correct; None for a task without accuracy."""
        return None if self.correct is None else float(self.correct.mean())

    def select_examples(self, positions: NDArray[np.int64]) -> _ProbeOutcomes:
        """Return the results of the examples at these positions."""
        return _ProbeOutcomes(
            self.losses[positions],
            None if self.correct is None else self.correct[positions],
            None if self.classes is None else self.classes[positions],
        )


def probe_at_batch_size(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    batch_size: int,
    task: Task = CLASSIFICATION,
    kind: ProbeKind = ProbeKind.SIZE,
    epoch: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> list[ProbeResult]:
    """Evaluate all rows that are defined at an inference mini-batch size, on the validation split.

    Args:
        network: the trained network.
        inputs: of the validation split.
        targets: of the validation split.
        rows: the rows.
        populations: population values of each layer under each estimate.
        batch_size: the inference mini-batch size.
        task: of the network.
        kind: of the probe, for the record.
        epoch: of the weights, for the record.
        memory_limit: bytes of the largest activation.
    """
    outcomes_by_row = _outcomes_by_row(network, inputs, targets, rows, populations, batch_size, task, memory_limit)
    return [
        ProbeResult(
            kind,
            epoch,
            _probe_key(row, batch_size),
            len(targets),
            float(outcomes.losses.mean(dtype=np.float64)),
            outcomes.accuracy,
        )
        for row, outcomes in outcomes_by_row.items()
        if np.isfinite(outcomes.losses).all()
    ]


def probe_batch_composition(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    batch_size: int,
    reshuffles: int,
    seed: int,
    task: Task = CLASSIFICATION,
    memory_limit: int = MEMORY_LIMIT,
) -> list[ProbeResult]:
    """Measure the dependence of losses and predictions on the mini-batch composition, on the validation split.

    The examples are assigned to mini-batches in `reshuffles` random orders. In a classification they are once sorted by
    class, too, so that most mini-batches hold one class; flips are changes of the predicted class relative to the order
    of the data, averaged over the passes.

    Args:
        network: the trained network.
        inputs: of the validation split.
        targets: of the validation split.
        rows: the rows.
        populations: population values of each layer under each estimate.
        batch_size: the inference mini-batch size.
        reshuffles: number of random orders.
        seed: of the random orders.
        task: of the network.
        memory_limit: bytes of the largest activation.
    """

    def evaluate_in_order(order: Tensor) -> dict[InferenceRow, _ProbeOutcomes]:
        outcomes_by_row = _outcomes_by_row(
            network, select_examples(inputs, order), targets[order], rows, populations, batch_size, task, memory_limit
        )
        inverse = torch.argsort(order).cpu().numpy()
        return {row: outcomes.select_examples(inverse) for row, outcomes in outcomes_by_row.items()}

    reference = evaluate_in_order(torch.arange(len(targets), device=targets.device))
    reshuffled, skewed = ([_CompositionStatistics(outcomes) for outcomes in reference.values()] for _ in range(2))
    generator = torch.Generator().manual_seed(seed)
    orders = [(reshuffled, _draw_order(targets, generator)) for _ in range(reshuffles)]
    if task.predicts_classes:
        orders.append((skewed, _order_by_class(targets, generator)))
    for row_statistics, order in orders:
        for statistics, outcomes in zip(row_statistics, evaluate_in_order(order).values(), strict=True):
            statistics.add(outcomes)
    probes = [
        statistics.to_probe(kind, _probe_key(row, batch_size))
        for index, row in enumerate(reference)
        for kind, statistics in ((ProbeKind.RESHUFFLED, reshuffled[index]), (ProbeKind.SKEWED, skewed[index]))
    ]
    return [probe for probe in probes if probe is not None]


class _CompositionStatistics:
    """Running statistics of one row over passes with other mini-batch compositions.

    Args:
        reference: the results in the order of the data.
    """

    def __init__(self, reference: _ProbeOutcomes) -> None:
        self.reference = reference
        self.passes = 0
        self.accuracies: list[float | None] = []
        self.flips: list[float | None] = []
        self.mean = np.zeros(len(reference.losses))
        self.squares = np.zeros(len(reference.losses))

    def add(self, outcomes: _ProbeOutcomes) -> None:
        """Add a pass; squared deviations from the mean by Welford's algorithm."""
        self.passes += 1
        losses = outcomes.losses.astype(np.float64)
        difference = losses - self.mean
        self.mean += difference / self.passes
        self.squares += difference * (losses - self.mean)
        self.accuracies.append(outcomes.accuracy)
        self.flips.append(self._flips_of_pass(outcomes))

    def to_probe(self, kind: ProbeKind, key: EvaluationKey) -> ProbeResult | None:
        """Return means over the passes; None without a pass, or where a loss is not finite."""
        if not self.passes or not np.isfinite(self.mean).all():
            return None
        deviation = float(np.sqrt(self.squares.mean() / (self.passes - 1))) if self.passes > 1 else None
        accuracy, flips = _mean_or_none(self.accuracies), _mean_or_none(self.flips)
        return ProbeResult(kind, 0, key, len(self.mean), float(self.mean.mean()), accuracy, deviation, flips)

    def _flips_of_pass(self, outcomes: _ProbeOutcomes) -> float | None:
        """Return the fraction of examples whose predicted class changed; None for a task without classes."""
        if outcomes.classes is None or self.reference.classes is None:
            return None
        return float((outcomes.classes != self.reference.classes).mean())


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    """Return the mean; None where values are missing."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if len(present) == len(values) else None


def _draw_order(targets: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random order of the examples."""
    return torch.randperm(len(targets), generator=generator).to(targets.device)


def _order_by_class(targets: Tensor, generator: torch.Generator) -> Tensor:
    """Return the examples sorted by class, in a random order within each class."""
    mixed = _draw_order(targets, generator)
    return mixed[torch.argsort(targets[mixed], stable=True)]


def _outcomes_by_row(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    rows: Sequence[InferenceRow],
    populations: Populations,
    batch_size: int,
    task: Task,
    memory_limit: int,
) -> dict[InferenceRow, _ProbeOutcomes]:
    """Return the results of the rows that are defined at a mini-batch size."""
    results = outcomes_or_undefined_reasons(
        network,
        iter_mini_batches_with_fillers(inputs, targets, batch_size),
        rows,
        populations,
        batch_size=batch_size,
        score=cross_entropy_and_prediction if task.predicts_classes else task.score,
        memory_limit=memory_limit,
    )
    return {
        row: _make_probe_outcomes(result, targets, task)
        for row, result in zip(rows, results, strict=True)
        if isinstance(result, ExampleOutcomes)
    }


def _make_probe_outcomes(outcomes: ExampleOutcomes, targets: Tensor, task: Task) -> _ProbeOutcomes:
    """Return the results of a pass; that of a classification has predicted classes in place of correctness."""
    if task.predicts_classes:
        classes = outcomes.correct.astype(np.int64)
        return _ProbeOutcomes(outcomes.losses, classes == targets.cpu().numpy(), classes)
    return _ProbeOutcomes(outcomes.losses, outcomes.correct if task.description.has_accuracy else None, None)


def _probe_key(row: InferenceRow, batch_size: int) -> EvaluationKey:
    return EvaluationKey(row.configuration, row.estimate, batch_size, Split.VALIDATION)
