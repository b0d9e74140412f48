"""Drift of each layer: deviation of mini-batch statistics from the population values that replace them at inference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import torch
from torch import Tensor, nn

from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS
from bln_search.core.records import StatisticDrift
from bln_search.norms.network.layers import MomentsByEstimate
from bln_search.norms.normalization import Normalization
from bln_search.norms.statistics import StatisticMoments

_ROUNDING_SHARE = 1e-6
"""A mean variance below this share of ε is rounding: the inputs of the layer do not vary, and drift is undefined."""


def compute_drifts(moments: MomentsByEstimate, layers: Mapping[str, Normalization]) -> tuple[StatisticDrift, ...]:
    """Return the drift of every layer, statistic and estimate, in units of the layer's deviation.

    With μ_b, σ_b (ε under its root) the statistics of mini-batch b and E the mean over mini-batches:

        spread = std_b(μ_b) / √E[σ_b²]                 (without ε; likewise for σ_b)
        shift = (E[μ_b] − E_frozen[μ_b]) / √E[σ_b²]    (likewise for σ_b)

    Both are root mean squares over the values of a layer. Shift is None without a `frozen` estimate, both are None
    where the inputs of the layer do not vary. Layers that share their γ (time steps of a recurrent layer) have one
    drift, the root mean square over them.

    Args:
        moments: of each layer under each estimate.
        layers: of the network, by name.
    """
    frozen = moments.get(PopulationEstimate.FROZEN, {})
    layer_drifts: list[StatisticDrift] = []
    for estimate, moments_of_layers in moments.items():
        for name, layer_moments in moments_of_layers.items():
            frozen_moments, epsilon = frozen.get(name), layers[name].formula_variant.epsilon
            pairs = (
                (BATCH_STATISTICS, layer_moments.batch, frozen_moments.batch if frozen_moments else None),
                (FEATURE_STATISTICS, layer_moments.feature, frozen_moments.feature if frozen_moments else None),
            )
            for statistics, pair, frozen_pair in pairs:
                if pair is not None:
                    layer_drifts += _iter_drifts_of_pair((name, estimate), statistics, pair, frozen_pair, epsilon)
    return _merge_drifts_of_shared_layers(layer_drifts, layers)


def _merge_drifts_of_shared_layers(
    layer_drifts: Iterable[StatisticDrift], layers: Mapping[str, Normalization]
) -> tuple[StatisticDrift, ...]:
    """Merge the drifts of layers that share their γ, under the common prefix of their names."""
    names_by_weight: dict[nn.Parameter, list[str]] = {}
    for name, layer in layers.items():
        names_by_weight.setdefault(layer.weight, []).append(name)
    label = {name: _common_name_prefix(names) for names in names_by_weight.values() for name in names}
    groups: dict[tuple[str, str, str], list[StatisticDrift]] = {}
    for drift in layer_drifts:
        groups.setdefault((label[drift.layer], drift.statistic, drift.estimate), []).append(drift)
    return tuple(
        StatisticDrift(
            *key,
            _root_mean_square(drift.spread for drift in group),
            _root_mean_square(drift.shift for drift in group),
        )
        for key, group in groups.items()
    )


def _common_name_prefix(names: Sequence[str]) -> str:
    """Return the leading name parts that all names share; the first name where there are none."""
    common = takewhile(lambda parts: len(set(parts)) == 1, zip(*(name.split(".") for name in names), strict=False))
    return ".".join(parts[0] for parts in common) or names[0]


def _root_mean_square(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return known[0] if known else None
    return math.sqrt(math.fsum(value**2 for value in known) / len(known))


def _iter_drifts_of_pair(
    key: tuple[str, str],
    statistics: tuple[str, ...],
    pair: StatisticMoments,
    frozen_pair: StatisticMoments | None,
    epsilon: float,
) -> Iterator[StatisticDrift]:
    layer, estimate = key
    mean_variance = pair.variance.mean()
    scale = torch.where(mean_variance > _ROUNDING_SHARE * epsilon, mean_variance, torch.nan).sqrt()
    variances = (pair.variance_of_mean, pair.variance + epsilon - pair.deviation**2)
    means = (pair.mean, pair.deviation)
    is_comparable = frozen_pair is not None and frozen_pair.mean.shape == pair.mean.shape
    frozen_means = (frozen_pair.mean, frozen_pair.deviation) if frozen_pair and is_comparable else (None, None)
    for statistic, variance, mean, frozen_mean in zip(statistics, variances, means, frozen_means, strict=True):
        spread = _finite_or_none(variance.clamp_min(0).mean().sqrt() / scale)
        shift = None if frozen_mean is None else _finite_or_none(((mean - frozen_mean) ** 2).mean().sqrt() / scale)
        yield StatisticDrift(layer, str(statistic), str(estimate), spread, shift)


def _finite_or_none(value: Tensor) -> float | None:
    return float(value) if bool(torch.isfinite(value)) else None
