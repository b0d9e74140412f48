"""Compare the same rows between studies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.records import RowKey
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.statistics.intervals import ConfidenceInterval, t_interval, welch_interval


@dataclass(frozen=True)
class SharedRow:
    """A row that two studies or more have.

    Attributes:
        key: Identity of the row.
        losses: Mean loss in each study; None in a study that lacks the row.
        differences: Mean loss in each study minus that in the first one; None for the first study, and where either
            lacks the row.
    """

    key: RowKey
    losses: tuple[ConfidenceInterval | None, ...]
    differences: tuple[ConfidenceInterval | None, ...]


def match_rows(studies: Sequence[dict[RowKey, LossBySeed]], limit: int | None) -> tuple[list[SharedRow], int]:
    """Match rows between studies by their key.

    Rows of the first study come first, by increasing mean loss; then rows of the second study that the first one lacks,
    and so on. Differences are paired by seed where both studies have the same seeds: the same seed gives the same
    examples and initial weights where data and network are equal, and pairing does no harm where they are not.
    Otherwise differences are Welch's.

    Args:
        studies: Losses of each study.
        limit: Maximum number of rows to return; None for all.

    Returns:
        The first `limit` shared rows, and the number of all shared rows.
    """
    study_count: dict[RowKey, int] = {}
    for study in studies:
        for key in study:
            study_count[key] = study_count.get(key, 0) + 1
    shared = [key for key, count in study_count.items() if count > 1]
    shared.sort(key=lambda key: _sort_key(key, studies))
    return [_make_shared_row(key, studies) for key in shared[:limit]], len(shared)


def _sort_key(key: RowKey, studies: Sequence[dict[RowKey, LossBySeed]]) -> tuple[int, float]:
    return next(
        (position, statistics.fmean(study[key].values())) for position, study in enumerate(studies) if key in study
    )


def _make_shared_row(key: RowKey, studies: Sequence[dict[RowKey, LossBySeed]]) -> SharedRow:
    by_study = [study.get(key) for study in studies]
    first = by_study[0]
    return SharedRow(
        key,
        tuple(None if losses is None else t_interval(list(losses.values())) for losses in by_study),
        tuple(
            None if losses is None or first is None or losses is first else loss_difference(losses, first)
            for losses in by_study
        ),
    )


def loss_difference(losses: LossBySeed, first: LossBySeed) -> ConfidenceInterval:
    """Mean loss minus that of the first study: paired by seed if both have the same seeds, else Welch's interval."""
    if losses.keys() == first.keys():
        return t_interval([losses[seed] - first[seed] for seed in sorted(first)])
    return welch_interval(list(losses.values()), list(first.values()))
