"""How far the statistics of mini-batches lie from the population that stands for them at inference, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS
from bln_search.core.records import Drift
from bln_search.core.words import PopulationEstimate
from bln_search.norms.finding import Gathered
from bln_search.norms.layer import Normalization
from bln_search.norms.statistics import Moments

_TINY = 1e-12


def drifts(gathered: Gathered, layers: Mapping[str, Normalization]) -> tuple[Drift, ...]:
    """A figure for every layer, statistic and estimate, in units of the layer's deviation.

    layers: of the network, by name. With μ_b, σ_b (ε under its root) the statistics of mini-batch b, E over
    mini-batches, and both figures root mean squares over the values of a layer: spread is the standard deviation of
    μ_b (or σ_b) over mini-batches, over the root of E[σ_b²] without ε; shift is
    E[μ_b] (or E[σ_b]) less that of the `frozen` estimate, over the same: None where nothing was gathered frozen.
    """
    frozen = gathered.get(PopulationEstimate.FROZEN, {})
    found: list[Drift] = []
    for estimate, moments in gathered.items():
        for name, layer in moments.items():
            still, epsilon = frozen.get(name), layers[name].eps
            pairs = (
                (BATCH_STATISTICS, layer.batch, still.batch if still else None),
                (FEATURE_STATISTICS, layer.feature, still.feature if still else None),
            )
            for statistics, pair, other in pairs:
                if pair is not None:
                    found += _of_pair((name, estimate), statistics, pair, other, epsilon)
    return tuple(found)


def _of_pair(
    place: tuple[str, PopulationEstimate],
    statistics: tuple[str, ...],
    pair: Moments,
    still: Moments | None,
    epsilon: float,
) -> Iterator[Drift]:
    scale = pair.variance.mean().sqrt().clamp_min(_TINY)
    scatters = (pair.mean_square - pair.mean**2, pair.variance + epsilon - pair.deviation**2)
    means = (pair.mean, pair.deviation)
    stills = (None, None) if still is None or still.mean.shape != pair.mean.shape else (still.mean, still.deviation)
    for statistic, scatter, mean, other in zip(statistics, scatters, means, stills, strict=True):
        spread = _finite(scatter.clamp_min(0).mean().sqrt() / scale)
        shift = None if other is None else _finite(((mean - other) ** 2).mean().sqrt() / scale)
        yield Drift(place[0], str(statistic), str(place[1]), spread, shift)


def _finite(value: Tensor) -> float | None:
    return float(value) if bool(torch.isfinite(value)) else None
