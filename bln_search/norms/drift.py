"""How far the statistics of mini-batches lie from the population that stands for them at inference, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import torch
from torch import Tensor, nn

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS
from bln_search.core.enums import PopulationEstimate
from bln_search.core.records import Drift
from bln_search.norms.layer import Normalization
from bln_search.norms.network_layers import Gathered
from bln_search.norms.statistics import Moments

_ROUNDING = 1e-6
"""A mean variance below this share of ε is rounding: its layer does not vary, and nothing is in units of that."""


def drifts(gathered: Gathered, layers: Mapping[str, Normalization]) -> tuple[Drift, ...]:
    """A figure for every layer, statistic and estimate, in units of the layer's deviation.

    layers: of the network, by name. With μ_b, σ_b (ε under its root) the statistics of mini-batch b, E over
    mini-batches, and both figures root mean squares over the values of a layer: spread is the standard deviation of
    μ_b (or σ_b) over mini-batches, over the root of E[σ_b²] without ε; shift is
    E[μ_b] (or E[σ_b]) less that of the `frozen` estimate, over the same: None where nothing was gathered frozen.
    Both are None where inputs never vary. Layers that share their γ (the time steps of a recurrent layer) have one
    figure together, the root mean square of theirs.
    """
    frozen = gathered.get(PopulationEstimate.FROZEN, {})
    found: list[Drift] = []
    for estimate, moments in gathered.items():
        for name, layer in moments.items():
            still, epsilon = frozen.get(name), layers[name].reading.epsilon
            pairs = (
                (BATCH_STATISTICS, layer.batch, still.batch if still else None),
                (FEATURE_STATISTICS, layer.feature, still.feature if still else None),
            )
            for statistics, pair, other in pairs:
                if pair is not None:
                    found += _of_pair((name, estimate), statistics, pair, other, epsilon)
    return _together(found, layers)


def _together(found: Iterable[Drift], layers: Mapping[str, Normalization]) -> tuple[Drift, ...]:
    """One figure for the layers that share their γ, under what their names begin with."""
    sharing: dict[nn.Parameter, list[str]] = {}
    for name, layer in layers.items():
        sharing.setdefault(layer.weight, []).append(name)
    label = {name: _shared_name(names) for names in sharing.values() for name in names}
    groups: dict[tuple[str, str, str], list[Drift]] = {}
    for one in found:
        groups.setdefault((label[one.layer], one.statistic, one.estimate), []).append(one)
    return tuple(
        Drift(*place, _root_mean_square(one.spread for one in group), _root_mean_square(one.shift for one in group))
        for place, group in groups.items()
    )


def _shared_name(names: Sequence[str]) -> str:
    """The parts that all names begin with; the first name where there are none."""
    common = takewhile(lambda parts: len(set(parts)) == 1, zip(*(name.split(".") for name in names), strict=False))
    return ".".join(parts[0] for parts in common) or names[0]


def _root_mean_square(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return known[0] if known else None
    return math.sqrt(math.fsum(value**2 for value in known) / len(known))


def _of_pair(
    place: tuple[str, PopulationEstimate],
    statistics: tuple[str, ...],
    pair: Moments,
    still: Moments | None,
    epsilon: float,
) -> Iterator[Drift]:
    size = pair.variance.mean()
    scale = torch.where(size > _ROUNDING * epsilon, size, torch.nan).sqrt()
    scatters = (pair.variance_of_mean, pair.variance + epsilon - pair.deviation**2)
    means = (pair.mean, pair.deviation)
    stills = (None, None) if still is None or still.mean.shape != pair.mean.shape else (still.mean, still.deviation)
    for statistic, scatter, mean, other in zip(statistics, scatters, means, stills, strict=True):
        spread = _finite(scatter.clamp_min(0).mean().sqrt() / scale)
        shift = None if other is None else _finite(((mean - other) ** 2).mean().sqrt() / scale)
        yield Drift(place[0], str(statistic), str(place[1]), spread, shift)


def _finite(value: Tensor) -> float | None:
    return float(value) if bool(torch.isfinite(value)) else None
