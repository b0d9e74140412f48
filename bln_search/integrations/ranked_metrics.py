"""A ranked table as metrics of a tracker: numbers by name."""

from __future__ import annotations

import math
import re

from bln_search.api.ranked.conditions import RankedConditions
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.enums import Split
from bln_search.core.method import StatisticSource

Ranked = RankedConfigurations | RankedConditions

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-]+")
"""Characters that a tracker may refuse in the name of a metric."""


def flatten_ranked(ranked: Ranked) -> dict[str, float]:
    """Metrics of the validation split by name; each condition has its own, as in `noise/recommended_loss`.

    - `recommended_loss`, `recommended_accuracy` and the user's metrics of the recommended row
    - `in_use_loss`: the network as it is in evaluation mode, if it was converted by `same`
    - `mini_batch_loss`: with the statistics of the mini-batch, as in training mode
    - `evaluation_gap`: `in_use_loss` minus `mini_batch_loss`
    - `loss/TT--_frozen`: each row; with its mini-batch size where there are several, as in `loss/FF--_m4`
    """
    if isinstance(ranked, RankedConditions):
        return {
            f"{condition}/{name}": value
            for condition, table in ranked.conditions.items()
            for name, value in flatten_ranked(table).items()
        }
    if ranked.board.best_row is None:
        return {}
    losses = {f"loss/{_row_name(ranked, row)}": _loss(row) for row in ranked if row.row.rank is not None}
    metrics = _recommended_metrics(ranked) | _losses_by_mode(ranked) | losses
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _recommended_metrics(ranked: RankedConfigurations) -> dict[str, float]:
    row = ranked.recommended
    metrics = {"recommended_loss": _loss(row)}
    accuracy = row.row.metrics[Split.VALIDATION].accuracy
    if ranked.has_accuracy and accuracy is not None:
        metrics["recommended_accuracy"] = accuracy.mean
    of_user = row.metrics.get(Split.VALIDATION, {})
    return metrics | {f"recommended_{_NOT_IN_NAMES.sub('_', name)}": value for name, value in of_user.items()}


def _losses_by_mode(ranked: RankedConfigurations) -> dict[str, float]:
    """The losses in evaluation mode and with statistics of the mini-batch, and their difference."""
    in_use = ranked.as_is
    losses = {} if in_use is None else {"in_use_loss": _loss(in_use)}
    mini_batch = next((row for row in ranked if row.row.rank is not None and _uses_mini_batch_alone(row)), None)
    if mini_batch is None or (in_use is not None and in_use.row.key == mini_batch.row.key):  # LayerNorm alone
        return losses
    losses["mini_batch_loss"] = _loss(mini_batch)
    if in_use is not None:
        losses["evaluation_gap"] = _loss(in_use) - _loss(mini_batch)
    return losses


def _uses_mini_batch_alone(row: RankedConfiguration) -> bool:
    sources = set(row.configuration.source_by_statistic.values()) - {StatisticSource.ABSENT}
    return sources == {StatisticSource.MINI_BATCH}


def _loss(row: RankedConfiguration) -> float:
    return row.row.metrics[Split.VALIDATION].loss.mean


def _row_name(ranked: RankedConfigurations, row: RankedConfiguration) -> str:
    parts = [str(row.configuration), row.row.estimate]
    if len(ranked.batch_sizes) > 1:
        parts.append(f"m{row.row.batch_size}")
    return _NOT_IN_NAMES.sub("_", "_".join(part for part in parts if part))
