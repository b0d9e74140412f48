"""Probes gathered by row and seed: how a row does at other batch sizes, after other epochs, in other company."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bln_search.core.enums import ProbeKind
from bln_search.core.records import Probe
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.statistics.intervals import Interval, interval_of


@dataclass(frozen=True)
class Probed:
    """A probe of one seed of one arm at one point."""

    arm: str
    point: str
    seed: int
    probe: Probe

    @property
    def row(self) -> Candidate:
        """What was probed, without what the probe varies; the batch size is that of the probe."""
        key = self.probe.key
        return self.arm, self.point, key.configuration, key.estimate, key.batch_size


@dataclass(frozen=True)
class AxisPoint:
    """Mean loss and accuracy of a row at one batch size or epoch, with their intervals over seeds."""

    at: int
    loss: Interval
    accuracy: Interval


Line = tuple[str, str, str, str]
"""Arm, point, configuration and estimate (empty for none) of a curve."""


def curves(probed: Iterable[Probed], kind: ProbeKind) -> dict[Line, list[AxisPoint]]:
    """Of every row a point at each batch size (`size`) or epoch (`epoch`), in order."""
    found: dict[Line, dict[int, list[Probe]]] = {}
    for one in probed:
        probe = one.probe
        if probe.kind is kind:
            key = probe.key
            line = one.arm, one.point, str(key.configuration), key.estimate or ""
            at = probe.epoch if kind is ProbeKind.EPOCH else key.batch_size
            found.setdefault(line, {}).setdefault(at, []).append(probe)
    return {
        line: [
            AxisPoint(at, interval_of([one.loss for one in same]), interval_of([one.accuracy for one in same]))
            for at, same in sorted(points.items())
        ]
        for line, points in sorted(found.items())
    }


@dataclass(frozen=True)
class Crossing:
    """Two rows change places between two neighbouring values of an axis."""

    better_before: Line
    better_after: Line
    between: tuple[int, int]


def crossings(lines: Mapping[Line, list[AxisPoint]]) -> list[Crossing]:
    """Where the row of lowest mean loss gives way to another along the axis; of those that have all seeds there."""
    best: list[tuple[int, Line]] = []
    for at in sorted({point.at for points in lines.values() for point in points}):
        every = {line: point.loss for line, points in lines.items() for point in points if point.at == at}
        seeds = max(one.n for one in every.values())
        here = {line: one.mean for line, one in every.items() if one.n == seeds}
        best.append((at, min(here, key=lambda line: (here[line], line))))
    return [Crossing(before, after, (low, high)) for (low, before), (high, after) in pairwise(best) if before != after]


@dataclass(frozen=True)
class Company:
    """How much a row's answers depend on the rest of the mini-batch; means over seeds.

    deviation: how far an example's loss scatters over other mini-batches (nats). flips: share of examples whose
    prediction changes. skewed_loss, skewed_flips: the same with mini-batches of one class. deterministic: by its
    configuration no other example has a say.
    """

    loss: float
    deviation: float | None
    flips: float
    skewed_loss: float | None
    skewed_flips: float | None
    seeds: int
    deterministic: bool


def company(probed: Iterable[Probed]) -> dict[Candidate, Company]:
    """Of every row that was reshuffled."""
    gathered: dict[Candidate, dict[ProbeKind, list[Probe]]] = {}
    for one in probed:
        if one.probe.kind in (ProbeKind.RESHUFFLED, ProbeKind.SKEWED):
            gathered.setdefault(one.row, {}).setdefault(one.probe.kind, []).append(one.probe)
    found = {}
    for row, kinds in gathered.items():
        mixed, skewed = kinds.get(ProbeKind.RESHUFFLED, []), kinds.get(ProbeKind.SKEWED, [])
        if mixed:
            found[row] = Company(
                loss=statistics.fmean(one.loss for one in mixed),
                deviation=_mean([one.deviation for one in mixed]),
                flips=statistics.fmean(one.flips or 0.0 for one in mixed),
                skewed_loss=_mean([one.loss for one in skewed]),
                skewed_flips=_mean([one.flips for one in skewed]),
                seeds=len(mixed),
                deterministic=row[2].deterministic,
            )
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return statistics.fmean(known) if known else None
