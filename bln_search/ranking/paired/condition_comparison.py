"""Compare rows over several validation conditions: all pairs, on the mean over conditions and in each condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.ranking.paired.crossed_anova import (
    ContrastEstimates,
    concatenate_contrasts,
    crossed_anova_differences,
)
from bln_search.ranking.paired.sum_of_means import (
    ExampleRelation,
    relate_examples,
    sums_of_means,
)
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.ranking.statistics.letter_display import compact_letter_display

_MAX_VALUES_IN_MEMORY = 2**22
"""Limit on the number of differences in memory."""


@dataclass(frozen=True)
class RowComparisonOverConditions:
    """All pairs of rows, on the mean over conditions and in each condition.

    p values are corrected for all pairs, those of the mean over conditions and those of each condition by themselves.

    Attributes:
        pairs: First and second row of each pair, (P,) each, with first < second.
        mean: Differences of the means over conditions (first − second).
        by_condition: Differences in each condition.
        letters: Compact letter display of the mean over conditions; None for too many groups.
        relation: How the examples of the conditions depend on each other.
    """

    pairs: tuple[NDArray[np.intp], NDArray[np.intp]]
    mean: ContrastEstimates
    by_condition: tuple[ContrastEstimates, ...]
    letters: list[str] | None
    relation: ExampleRelation

    def pair_index(self, row: int, other_row: int) -> int:
        """Position of a pair of rows."""
        first, second = self.pairs
        return int(np.flatnonzero((first == min(row, other_row)) & (second == max(row, other_row)))[0])


def compare_rows_over_conditions(tables: Sequence[OutcomeTable]) -> RowComparisonOverConditions:
    """Compare all pairs of rows.

    Args:
        tables: Outcomes in each condition: the same rows, ordered by increasing mean over conditions, and the same
            seeds. Numbers of examples may differ.

    Raises:
        DataError: The tables have different rows or seeds.
    """
    check_equal_numbers_of_seeds_and_rows(tables)
    relation = relate_examples_of_conditions(tables)
    by_condition = tuple(crossed_anova_differences(table, "loss") for table in tables)
    mean = by_condition[0] if len(tables) == 1 else _differences_of_condition_means(tables, relation)
    first, second = tables[0].row_pairs
    different = {
        (int(row), int(other)) for row, other, p in zip(first, second, mean.adjusted, strict=True) if p < ALPHA
    }
    return RowComparisonOverConditions(
        pairs=(first, second),
        mean=mean,
        by_condition=by_condition,
        letters=compact_letter_display(tables[0].num_rows, different),
        relation=relation,
    )


def join_conditions_by_target(tables: Sequence[OutcomeTable]) -> list[OutcomeTable]:
    """Bring the examples of all conditions into the order of the first one, where their targets identify them.

    Tables with unknown, other or repeated targets are unchanged.
    """
    first = tables[0].targets
    if first is None or len(np.unique(first)) < len(first):
        return list(tables)
    place_in_first = np.argsort(np.argsort(first))
    return [
        table.take_examples(np.argsort(table.targets)[place_in_first])
        if table.targets is not None and np.array_equal(np.sort(table.targets), np.sort(first))
        else table
        for table in tables
    ]


def relate_examples_of_conditions(tables: Sequence[OutcomeTable]) -> ExampleRelation:
    """Return how the examples of several conditions depend on each other."""
    return relate_examples([table.num_examples for table in tables], [table.targets for table in tables])


def check_equal_numbers_of_seeds_and_rows(tables: Sequence[OutcomeTable]) -> None:
    """Raise DataError unless all tables have the same numbers of seeds and rows."""
    shapes = {(table.num_seeds, table.num_rows) for table in tables}
    if len(shapes) != 1:
        raise DataError(f"conditions are compared over the same seeds and rows; they have (seeds, rows) {shapes}")


def _differences_of_condition_means(tables: Sequence[OutcomeTable], relation: ExampleRelation) -> ContrastEstimates:
    """Differences of the means over conditions, of all pairs."""
    first, second = pairs = tables[0].row_pairs
    count = len(tables)
    step = max(1, _MAX_VALUES_IN_MEMORY // sum(table.losses.shape[0] * table.num_examples for table in tables))
    chunks = [slice(start, start + step) for start in range(0, len(first), step)]
    parts = [
        sums_of_means(
            [
                (table.losses[:, first[chunk]].astype(np.float64) - table.losses[:, second[chunk]]) / count
                for table in tables
            ],
            relation,
        )
        for chunk in chunks
    ]
    if not parts:
        return ContrastEstimates(*(np.empty(0) for _ in range(4)))
    return concatenate_contrasts(parts).test(pairs, tables[0].num_rows)
