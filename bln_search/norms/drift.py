"""How far the statistics of mini-batches lie from the population that stands for them at inference, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS
from bln_search.core.records import Drift
from bln_search.core.words import PopulationEstimate
from bln_search.norms.finding import Gathered
from bln_search.norms.statistics import Moments

_TINY = 1e-12


def drifts(gathered: Gathered) -> tuple[Drift, ...]:
    """A figure for every layer, statistic and estimate, in units of the layer's deviation.

    With μ_b, σ_b the statistics of mini-batch b, E over mini-batches and both figures root mean squares over the values
    of a layer: spread is the standard deviation of μ_b (or σ_b) over mini-batches, over the root of E[σ_b²]; shift is
    E[μ_b] (or E[σ_b]) less that of the `frozen` estimate, over the same: None where nothing was gathered frozen.
    """
    frozen = gathered.get(PopulationEstimate.FROZEN, {})
    found: list[Drift] = []
    for estimate, layers in gathered.items():
        for name, layer in layers.items():
            still = frozen.get(name)
            found += _of_pair(name, estimate, BATCH_STATISTICS, layer.batch, still.batch if still else None)
            found += _of_pair(name, estimate, FEATURE_STATISTICS, layer.feature, still.feature if still else None)
    return tuple(found)


def _of_pair(
    layer: str, estimate: PopulationEstimate, statistics: tuple[str, ...], pair: Moments | None, still: Moments | None
) -> Iterator[Drift]:
    if pair is None:
        return
    scale = pair.variance.mean().sqrt().clamp_min(_TINY)
    scatters = (pair.mean_square - pair.mean**2, pair.variance - pair.deviation**2)
    means = (pair.mean, pair.deviation)
    stills = (None, None) if still is None or still.mean.shape != pair.mean.shape else (still.mean, still.deviation)
    for statistic, scatter, mean, other in zip(statistics, scatters, means, stills, strict=True):
        spread = _finite(scatter.clamp_min(0).mean().sqrt() / scale)
        shift = None if other is None else _finite(((mean - other) ** 2).mean().sqrt() / scale)
        yield Drift(layer, str(statistic), str(estimate), spread, shift)


def _finite(value: Tensor) -> float | None:
    return float(value) if bool(torch.isfinite(value)) else None
