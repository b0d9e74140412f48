"""Compare the same rows between studies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.records import RowKey
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval, welch_interval


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


def match_rows_between_studies(
    studies: Sequence[dict[RowKey, LossBySeed]], limit: int | None
) -> tuple[list[SharedRow], int]:
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
    shared.sort(key=lambda key: _shared_row_sort_key(key, studies))
    return [_make_shared_row(key, studies) for key in shared[:limit]], len(shared)


def _shared_row_sort_key(key: RowKey, studies: Sequence[dict[RowKey, LossBySeed]]) -> tuple[int, float]:
    return next(
        (position, statistics.fmean(study[key].values())) for position, study in enumerate(studies) if key in study
    )


def _make_shared_row(key: RowKey, studies: Sequence[dict[RowKey, LossBySeed]]) -> SharedRow:
    by_study = [study.get(key) for study in studies]
    first = by_study[0]
    return SharedRow(
        key,
        tuple(None if losses is None else mean_with_t_interval(list(losses.values())) for losses in by_study),
        tuple(
            None
            if losses is None or first is None or losses is first
            else loss_difference_between_studies(losses, first)
            for losses in by_study
        ),
    )


def loss_difference_between_studies(losses: LossBySeed, first: LossBySeed) -> ConfidenceInterval:
    """Mean loss minus that of the first study: paired by seed if both have the same seeds, else Welch's interval."""
    if losses.keys() == first.keys():
        return mean_with_t_interval([losses[seed] - first[seed] for seed in sorted(first)])
    return welch_interval(list(losses.values()), list(first.values()))


@dataclass(frozen=True)
class BestRowDifference:
    """The best row of a study against that of the first study.

    Attributes:
        first: The row of lowest mean loss in the first study.
        best: The row of lowest mean loss in the other study.
        difference: Mean loss of `best` minus that of `first`. The rows were selected for their low loss, which the
            interval does not account for.
    """

    first: RowKey
    best: RowKey
    difference: ConfidenceInterval


def compare_best_rows_of_studies(
    first: dict[RowKey, LossBySeed], other: dict[RowKey, LossBySeed]
) -> BestRowDifference | None:
    """Compare the rows of lowest mean loss of two studies, whether or not they are the same row.

    Only rows with all seeds of their study count: the mean of a row that lacks seeds is over other networks.

    Returns:
        None where a study has no row.
    """
    best = [_find_row_of_lowest_loss(study) for study in (first, other)]
    if best[0] is None or best[1] is None:
        return None
    return BestRowDifference(best[0], best[1], loss_difference_between_studies(other[best[1]], first[best[0]]))


def _find_row_of_lowest_loss(study: dict[RowKey, LossBySeed]) -> RowKey | None:
    seeds = max((len(losses) for losses in study.values()), default=0)
    complete = [key for key, losses in study.items() if len(losses) == seeds]
    return min(complete, key=lambda key: statistics.fmean(study[key].values()), default=None)
