"""Probes of a trained network: other mini-batch sizes, and other compositions of the mini-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


def probe_batch_size(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    batch_size: int,
    kind: ProbeKind = ProbeKind.SIZE,
    epoch: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> list[ProbeResult]:
    """Evaluate all rows that are defined at an inference mini-batch size, on the validation split.

    Args:
        network: the trained network.
        inputs: of the validation split.
        targets: classes of the validation split.
        rows: the rows.
        populations: population values of each layer under each estimate.
        batch_size: the inference mini-batch size.
        kind: of the probe, for the record.
        epoch: of the weights, for the record.
        memory_limit: bytes of the largest activation.
    """
    predicted = _losses_and_predictions_by_row(network, inputs, targets, rows, populations, batch_size, memory_limit)
    classes = targets.cpu().numpy()
    return [
        ProbeResult(
            kind,
            epoch,
            _probe_key(row, batch_size),
            len(classes),
            *_mean_loss_and_accuracy(row_outcomes.losses, row_outcomes.correct == classes),
        )
        for row, row_outcomes in predicted.items()
        if np.isfinite(row_outcomes.losses).all()
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
    memory_limit: int = MEMORY_LIMIT,
) -> list[ProbeResult]:
    """Measure the dependence of predictions on the mini-batch composition, on the validation split.

    The examples are assigned to mini-batches in `reshuffles` random orders, and once sorted by class, so that most
    mini-batches hold one class. Flips are changes of the predicted class relative to the order of the data, averaged
    over the passes.

    Args:
        network: the trained network.
        inputs: of the validation split.
        targets: classes of the validation split.
        rows: the rows.
        populations: population values of each layer under each estimate.
        batch_size: the inference mini-batch size.
        reshuffles: number of random orders.
        seed: of the random orders.
        memory_limit: bytes of the largest activation.
    """

    def predict_in_order(order: Tensor) -> dict[InferenceRow, ExampleOutcomes]:
        predicted = _losses_and_predictions_by_row(
            network, select_examples(inputs, order), targets[order], rows, populations, batch_size, memory_limit
        )
        inverse = torch.argsort(order).cpu().numpy()
        return {row: ExampleOutcomes(found.losses[inverse], found.correct[inverse]) for row, found in predicted.items()}

    reference = predict_in_order(torch.arange(len(targets), device=targets.device))
    classes = targets.cpu().numpy()
    reshuffled, skewed = (
        [_CompositionStatistics(row.correct.astype(np.int64), classes) for row in reference.values()] for _ in range(2)
    )
    orders = _example_orders(targets, reshuffles, torch.Generator().manual_seed(seed))
    for turn, order in enumerate(orders):
        row_statistics = reshuffled if turn < reshuffles else skewed
        for statistics, outcomes in zip(row_statistics, predict_in_order(order).values(), strict=True):
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
        reference: the predicted classes in the order of the data.
        classes: the targets.
    """

    def __init__(self, reference: NDArray[np.int64], classes: NDArray[np.int64]) -> None:
        self.reference, self.classes = reference, classes
        self.passes, self.accuracy_sum, self.flips_sum = 0, 0.0, 0.0
        self.mean = np.zeros(len(classes))
        self.squares = np.zeros(len(classes))

    def add(self, outcomes: ExampleOutcomes) -> None:
        """Add a pass; squared deviations from the mean by Welford's algorithm."""
        self.passes += 1
        losses = outcomes.losses.astype(np.float64)
        difference = losses - self.mean
        self.mean += difference / self.passes
        self.squares += difference * (losses - self.mean)
        self.accuracy_sum += float((outcomes.correct == self.classes).mean())
        self.flips_sum += float((outcomes.correct != self.reference).mean())

    def to_probe(self, kind: ProbeKind, key: EvaluationKey) -> ProbeResult | None:
        """Return means over the passes; None without a pass, or where a loss is not finite."""
        if not self.passes or not np.isfinite(self.mean).all():
            return None
        deviation = float(np.sqrt(self.squares.mean() / (self.passes - 1))) if self.passes > 1 else None
        accuracy, flips = self.accuracy_sum / self.passes, self.flips_sum / self.passes
        return ProbeResult(kind, 0, key, len(self.classes), float(self.mean.mean()), accuracy, deviation, flips)


def _example_orders(targets: Tensor, reshuffles: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield `reshuffles` random orders, then one sorted by class, random within each class."""
    for _ in range(reshuffles):
        yield torch.randperm(len(targets), generator=generator).to(targets.device)
    mixed = torch.randperm(len(targets), generator=generator).to(targets.device)
    yield mixed[torch.argsort(targets[mixed], stable=True)]


def _losses_and_predictions_by_row(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    rows: Sequence[InferenceRow],
    populations: Populations,
    batch_size: int,
    memory_limit: int,
) -> dict[InferenceRow, ExampleOutcomes]:
    """Return losses and predicted classes of the rows that are defined at a mini-batch size."""
    results = outcomes_or_undefined_reasons(
        network,
        iter_mini_batches_with_fillers(inputs, targets, batch_size),
        rows,
        populations,
        batch_size=batch_size,
        score=cross_entropy_and_prediction,
        memory_limit=memory_limit,
    )
    return {row: result for row, result in zip(rows, results, strict=True) if isinstance(result, ExampleOutcomes)}


def _mean_loss_and_accuracy(losses: NDArray[np.floating], right: NDArray[np.bool_]) -> tuple[float, float]:
    return float(losses.mean(dtype=np.float64)), float(right.mean())


def _probe_key(row: InferenceRow, batch_size: int) -> EvaluationKey:
    return EvaluationKey(row.configuration, row.estimate, batch_size, Split.VALIDATION)
