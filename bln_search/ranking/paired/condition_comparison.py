"""Compare the mean over several validation conditions of each row with that of the best one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bln_search.core.errors import DataError
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.paired.crossed_anova import ContrastVariances, concatenate_contrasts
from bln_search.ranking.paired.differences_to_best import DifferencesToBest, compare_rows_with_best, row_verdicts
from bln_search.ranking.paired.distinct_rows import find_distinct_rows
from bln_search.ranking.paired.seed_variances import Pairs
from bln_search.ranking.paired.sum_of_means import (
    ExampleRelation,
    relate_examples,
    sums_of_means,
)
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA

_MAX_VALUES_IN_MEMORY = 2**22
"""Limit on the number of differences in memory."""


def compare_rows_over_conditions(tables: Sequence[OutcomeTable], margin: float) -> list[RowVerdict]:
    """What is known about the mean over conditions of each row beside that of the first one.

    Args:
        tables: Outcomes in each condition: the same rows, ordered by increasing mean over conditions, and the same
            seeds. Numbers of examples may differ.
        margin: Difference of means up to which rows are practically equal.

    Raises:
        DataError: The tables have different rows or seeds.
    """
    return row_verdicts(differences_of_condition_means(tables, 0, margin), 0, ALPHA)


def differences_of_condition_means(tables: Sequence[OutcomeTable], best: int, margin: float) -> DifferencesToBest:
    """Mean over conditions of each row minus that of row `best`, (K,); raises DataError as above."""
    check_equal_numbers_of_seeds_and_rows(tables)
    relation = relate_examples_of_conditions(tables)
    rows = find_distinct_rows(np.concatenate([table.losses for table in tables], axis=2))
    return compare_rows_with_best(
        rows, best, lambda pairs: _contrast_variances_of_condition_means(tables, relation, pairs), margin
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


def _contrast_variances_of_condition_means(
    tables: Sequence[OutcomeTable], relation: ExampleRelation, pairs: Pairs
) -> ContrastVariances:
    """Differences of the means over conditions of pairs of rows."""
    first, second = pairs
    step = max(1, _MAX_VALUES_IN_MEMORY // sum(table.num_seeds * table.num_examples for table in tables))
    parts = []
    for start in range(0, len(first), step):
        chunk = slice(start, start + step)
        sets = [
            (table.losses[:, first[chunk]].astype(np.float64) - table.losses[:, second[chunk]]) / len(tables)
            for table in tables
        ]
        parts.append(sums_of_means(sets, relation))
    return concatenate_contrasts(parts)
