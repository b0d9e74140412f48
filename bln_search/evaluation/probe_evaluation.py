"""A trained network beside the leaderboard: mini-batches of other sizes, and the same examples in other company."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.records import EvaluationKey, Outcomes, Probe
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.one_pass import evaluate_rows
from bln_search.evaluation.scoring import loss_and_class
from bln_search.evaluation.split import undefined_reason
from bln_search.norms.row_tensor import Populations, Row


def probe_size(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    rows: Sequence[Row],
    populations: Populations,
    *,
    batch_size: int,
    kind: ProbeKind = ProbeKind.SIZE,
    epoch: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> list[Probe]:
    """Every row that has a value at this inference mini-batch size, on the validation split."""
    kept = _defined(rows, populations, batch_size)
    batches = mini_batches(inputs, targets, batch_size)
    outcomes = evaluate_rows(network, batches, kept, populations, score=loss_and_class, memory_limit=memory_limit)
    answers = targets.cpu().numpy()
    return [
        Probe(kind, epoch, _key(row, batch_size), len(answers), *_means(one.losses, one.correct == answers))
        for row, one in zip(kept, outcomes, strict=True)
        if np.isfinite(one.losses).all()
    ]


def probe_company(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    rows: Sequence[Row],
    populations: Populations,
    *,
    batch_size: int,
    reshuffles: int,
    seed: int,
    memory_limit: int = MEMORY_LIMIT,
) -> list[Probe]:
    """How much answers depend on the other examples of the mini-batch, on the validation split.

    The examples are put into mini-batches anew `reshuffles` times, and once so that each holds one class as far as that
    goes. Flips are counted against the predictions in the order of the data, and averaged over the passes. seed: draws
    the orders.
    """
    kept = _defined(rows, populations, batch_size)

    def answer(order: Tensor) -> list[Outcomes]:
        batches = mini_batches(inputs[order], targets[order], batch_size)
        found = evaluate_rows(network, batches, kept, populations, score=loss_and_class, memory_limit=memory_limit)
        back = torch.argsort(order).cpu().numpy()
        return [Outcomes(one.losses[back], one.correct[back]) for one in found]

    usual = answer(torch.arange(len(targets), device=targets.device))
    truth = targets.cpu().numpy()
    mixed, skewed = ([_Company(one.correct.astype(np.int64), truth) for one in usual] for _ in range(2))
    orders = _orders(targets, reshuffles, torch.Generator().manual_seed(seed))
    for turn, order in enumerate(orders):
        for company, one in zip(mixed if turn < reshuffles else skewed, answer(order), strict=True):
            company.add(one)
    found = [
        company.probe(kind, _key(row, batch_size))
        for place, row in enumerate(kept)
        for kind, company in ((ProbeKind.RESHUFFLED, mixed[place]), (ProbeKind.SKEWED, skewed[place]))
    ]
    return [one for one in found if one is not None]


class _Company:
    """What passes in other company add up to; only sums are held. usual: classes predicted in the order of the data."""

    def __init__(self, usual: NDArray[np.int64], truth: NDArray[np.int64]) -> None:
        self.usual, self.truth = usual, truth
        self.passes, self.right, self.flips = 0, 0.0, 0.0
        self.mean = np.zeros(len(truth))
        self.squares = np.zeros(len(truth))

    def add(self, one: Outcomes) -> None:
        """One more pass; squares around the mean after Welford."""
        self.passes += 1
        losses = one.losses.astype(np.float64)
        before = losses - self.mean
        self.mean += before / self.passes
        self.squares += before * (losses - self.mean)
        self.right += float((one.correct == self.truth).mean())
        self.flips += float((one.correct != self.usual).mean())

    def probe(self, kind: ProbeKind, key: EvaluationKey) -> Probe | None:
        """Means over the passes; None without one, or where a loss was not a finite number."""
        if not self.passes or not np.isfinite(self.mean).all():
            return None
        deviation = float(np.sqrt(self.squares.mean() / (self.passes - 1))) if self.passes > 1 else None
        right, flips = self.right / self.passes, self.flips / self.passes
        return Probe(kind, 0, key, len(self.truth), float(self.mean.mean()), right, deviation, flips)


def _orders(targets: Tensor, reshuffles: int, generator: torch.Generator) -> Iterator[Tensor]:
    """`reshuffles` random orders, then one sorted by class, random within a class."""
    for _ in range(reshuffles):
        yield torch.randperm(len(targets), generator=generator).to(targets.device)
    mixed = torch.randperm(len(targets), generator=generator).to(targets.device)
    yield mixed[torch.argsort(targets[mixed], stable=True)]


def _defined(rows: Sequence[Row], populations: Populations, batch_size: int) -> list[Row]:
    return [row for row in rows if undefined_reason(row, populations, batch_size) is None]


def _means(losses: NDArray[np.floating], right: NDArray[np.bool_]) -> tuple[float, float]:
    return float(losses.mean(dtype=np.float64)), float(right.mean())


def _key(row: Row, batch_size: int) -> EvaluationKey:
    return EvaluationKey(row.configuration, row.estimate, batch_size, Split.VALIDATION)
