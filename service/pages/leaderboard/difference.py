"""The difference of two chosen rows, on both splits."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.row_difference import (
    RowDifference,
    compute_difference_over_seeds,
    find_compared_difference,
)
from bln_search.specs.problems import Problem
from service.caching.leaderboard_cache import CachedLeaderboard
from service.http.problems import ProblemException
from service.pages.leaderboard.rows import parse_row_key


@dataclass(frozen=True)
class ChosenRowsDifference:
    """Two rows and their differences.

    Attributes:
        first: The row that is subtracted.
        second: The other row.
        by_split: Second minus first by split, on the splits where both are measured; the split that ranks first.
        examples: Number of examples of the comparison of all rows; None before the study is complete.
        seeds: Seeds that both rows have.
    """

    first: LeaderboardRow
    second: LeaderboardRow
    by_split: dict[Split, RowDifference]
    examples: int | None
    seeds: int


def find_chosen_rows_difference(
    board: CachedLeaderboard, analysis: Analysis | None, texts: tuple[str, ...]
) -> ChosenRowsDifference | None:
    """Return the difference of two chosen rows, the one of better rank first; None for another number of rows.

    Raises:
        ProblemException: 422 if a text names no row, 404 if the leaderboard has no such row.
    """
    if len(texts) != 2:
        return None
    keys = [_parse_chosen_row_key(text) for text in texts]
    by_key = {row.key: (position, row) for position, row in enumerate(board.leaderboard.rows) if row.key in keys}
    for key, text in zip(keys, texts, strict=True):
        if key not in by_key:
            raise ProblemException(404, "not-found", f"this leaderboard has no row {text}")
    (_, first), (_, second) = sorted((by_key[key] for key in keys), key=lambda item: item[0])
    comparison = None if analysis is None else analysis.comparison
    ranked = board.leaderboard.ranked_on
    by_split = {}
    for split in sorted((Split.VALIDATION, Split.TEST), key=lambda split: split is not ranked):
        losses = [board.losses[split].get(row.key) for row in (first, second)]
        stored = (
            find_compared_difference(first.key, second.key, comparison) if _compares_on_split(analysis, split) else None
        )
        if stored is not None:
            by_split[split] = stored
        elif losses[0] and losses[1]:
            by_split[split] = compute_difference_over_seeds(losses[0], losses[1])
    examples = None if comparison is None else comparison.examples
    return ChosenRowsDifference(first, second, by_split, examples, min(first.seeds, second.seeds))


def _compares_on_split(analysis: Analysis | None, split: Split) -> bool:
    return analysis is not None and analysis.comparison is not None and analysis.comparison.split is split


def _parse_chosen_row_key(text: str) -> RowKey:
    try:
        return parse_row_key(text)
    except ValueError as error:
        message = f"{text!r} names no row: {error}"
        raise ProblemException(422, "invalid", message, [Problem(("row",), message)]) from None
