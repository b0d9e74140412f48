"""Probe results by row: performance at other batch sizes and epochs, and dependence on the mini-batch composition."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bln_search.core.enums import ProbeKind
from bln_search.core.records import ProbeResult, RowKey
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval


@dataclass(frozen=True)
class TrialProbe:
    """A probe of the network of one trial."""

    arm: str
    point: str
    seed: int
    probe: ProbeResult

    @property
    def row_key(self) -> RowKey:
        """The row that was probed; its batch size is that of the probe."""
        return RowKey.of_evaluation(self.arm, self.point, self.probe.key)


@dataclass(frozen=True)
class ProbeCurvePoint:
    """Mean loss and accuracy (fraction) over seeds at one batch size or epoch.

    Attributes:
        accuracy: None for a task without accuracy.
    """

    at: int
    loss: ConfidenceInterval
    accuracy: ConfidenceInterval | None


class ProbeCurveKey(NamedTuple):
    """Identity of a curve over batch sizes or epochs; `estimate` is empty where no population value is read."""

    arm: str
    point: str
    configuration: str
    estimate: str


def compute_probe_curves(probes: Iterable[TrialProbe], kind: ProbeKind) -> dict[ProbeCurveKey, list[ProbeCurvePoint]]:
    """One curve for each row, by increasing batch size (`size`) or epoch (`epoch`)."""
    grouped: dict[ProbeCurveKey, dict[int, list[ProbeResult]]] = {}
    for item in probes:
        probe = item.probe
        if probe.kind is kind:
            key = probe.key
            curve = ProbeCurveKey(item.arm, item.point, str(key.configuration), key.estimate or "")
            at = probe.epoch if kind is ProbeKind.EPOCH else key.batch_size
            grouped.setdefault(curve, {}).setdefault(at, []).append(probe)
    return {
        curve: [
            ProbeCurvePoint(
                at,
                mean_with_t_interval([probe.loss for probe in by_seed]),
                _accuracy_interval(by_seed),
            )
            for at, by_seed in sorted(points.items())
        ]
        for curve, points in sorted(grouped.items())
    }


def _accuracy_interval(probes: Sequence[ProbeResult]) -> ConfidenceInterval | None:
    """Mean accuracy over seeds; None for a task without accuracy."""
    accuracies = [probe.accuracy for probe in probes if probe.accuracy is not None]
    return mean_with_t_interval(accuracies) if accuracies else None


@dataclass(frozen=True)
class BestRowChange:
    """The best row changes between two neighbouring values of an axis."""

    better_before: ProbeCurveKey
    better_after: ProbeCurveKey
    between: tuple[int, int]


def list_best_row_changes(curves: Mapping[ProbeCurveKey, list[ProbeCurvePoint]]) -> list[BestRowChange]:
    """Intervals of the axis in which the row of lowest mean loss changes, among rows that have all seeds there."""
    best: list[tuple[int, ProbeCurveKey]] = []
    for at in sorted({point.at for points in curves.values() for point in points}):
        losses = {curve: point.loss for curve, points in curves.items() for point in points if point.at == at}
        seeds = max(loss.n for loss in losses.values())
        means = {curve: loss.mean for curve, loss in losses.items() if loss.n == seeds}
        best.append((at, min(means, key=lambda curve: (means[curve], curve))))
    return [
        BestRowChange(before, after, (low, high)) for (low, before), (high, after) in pairwise(best) if before != after
    ]


@dataclass(frozen=True)
class BatchDependence:
    """How far outputs of a row depend on the other examples of the mini-batch; means over seeds.

    Attributes:
        loss: Mean loss over shuffled mini-batches.
        deviation: Standard deviation of the loss of an example over mini-batch compositions; None for one composition.
        flips: Share of examples whose predicted class changes with the composition; None for a task without classes.
        skewed_loss: Mean loss with mini-batches of a single class; None for a task without classes.
        skewed_flips: Share of examples whose predicted class changes with mini-batches of a single class.
        seeds: Number of seeds.
        deterministic: Whether the configuration is independent of the mini-batch.
    """

    loss: float
    deviation: float | None
    flips: float | None
    skewed_loss: float | None
    skewed_flips: float | None
    seeds: int
    deterministic: bool


def compute_batch_dependence_by_row(
    probes: Iterable[TrialProbe], *, per_slot: bool = False
) -> dict[RowKey, BatchDependence]:
    """Batch dependence of every row that was evaluated with shuffled mini-batches.

    Args:
        probes: Probes of all kinds.
        per_slot: Whether the population has a value for each position in the mini-batch.
    """
    grouped: dict[RowKey, dict[ProbeKind, list[ProbeResult]]] = {}
    for item in probes:
        if item.probe.kind in (ProbeKind.RESHUFFLED, ProbeKind.SKEWED):
            grouped.setdefault(item.row_key, {}).setdefault(item.probe.kind, []).append(item.probe)
    results = {}
    for row, kinds in grouped.items():
        shuffled, skewed = kinds.get(ProbeKind.RESHUFFLED, []), kinds.get(ProbeKind.SKEWED, [])
        if shuffled:
            results[row] = BatchDependence(
                loss=statistics.fmean(probe.loss for probe in shuffled),
                deviation=_mean_of_measured([probe.deviation for probe in shuffled]),
                flips=_mean_of_measured([probe.flips for probe in shuffled]),
                skewed_loss=_mean_of_measured([probe.loss for probe in skewed]),
                skewed_flips=_mean_of_measured([probe.flips for probe in skewed]),
                seeds=len(shuffled),
                deterministic=is_deterministic_configuration(row.configuration, per_slot=per_slot),
            )
    return results


def _mean_of_measured(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return statistics.fmean(measured) if measured else None
