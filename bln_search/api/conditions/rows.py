"""Rows that have a value in every condition, with their losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bln_search.api.ranked.equal_rows import SizesByKey, merge_rows_equal_at_all_sizes
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.condition_comparison import (
    compare_rows_over_conditions,
    join_conditions_by_target,
)
from bln_search.ranking.selection.condition_criteria import Criterion, compute_criterion_values
from bln_search.ranking.selection.expected_loss import default_margin

MAX_COMPARED_ROWS_OVER_CONDITIONS = 200
"""Number of rows, from the best one down, that are compared over conditions."""

Tables = Mapping[str, RankedConfigurations]


@dataclass(frozen=True)
class RowsOverConditions:
    """Rows by increasing mean over conditions; those that are equal at all mini-batch sizes once.

    Attributes:
        tables: The ranked table of each condition.
        keys: Identity of each row that has a rank in every condition.
        batch_sizes: Mini-batch sizes of each row.
        losses: Mean loss of each row in each condition, (rows, conditions).
        without_value: Rows that lack a value in some condition.
    """

    tables: Tables
    keys: tuple[RowKey, ...]
    batch_sizes: SizesByKey
    losses: NDArray[np.float64]
    without_value: tuple[LeaderboardRow, ...]

    @property
    def condition_names(self) -> tuple[str, ...]:
        """Names of the conditions."""
        return tuple(self.tables)

    def criterion_values(self, criterion: Criterion) -> NDArray[np.float64]:
        """Value of each row."""
        return compute_criterion_values(self.losses, criterion)

    @cached_property
    def is_no_better_than_prior(self) -> NDArray[np.bool_]:
        """Whether each row has in no condition a lower loss than predicting the class frequencies, (rows,)."""
        priors = [math.inf if table.class_prior is None else table.class_prior.loss for table in self.tables.values()]
        no_better: NDArray[np.bool_] = np.all(self.losses >= np.asarray(priors), axis=1)
        return no_better

    def get_row(self, condition: str, key: RowKey) -> LeaderboardRow:
        """The row of a condition with this key."""
        return self._rows_by_condition_and_key[condition][key]

    @cached_property
    def _rows_by_condition_and_key(self) -> dict[str, dict[RowKey, LeaderboardRow]]:
        return {name: {row.key: row for row in table.board.rows} for name, table in self.tables.items()}

    @cached_property
    def as_is_row_key(self) -> RowKey | None:
        """The row of the network before conversion, at its size of lowest mean loss; None where there is none."""
        deployed = next(iter(self.tables.values())).deployed
        if deployed is None:
            return None
        row = deployed.configuration, deployed.estimate
        return next((key for key in self.keys if (key.configuration, key.estimate) == row), None)

    @cached_property
    def verdicts(self) -> list[RowVerdict | None]:
        """What is known about the mean of each row beside that of the first one; None for rows not compared."""
        tables = self.find_outcome_tables_per_condition(self.keys[:MAX_COMPARED_ROWS_OVER_CONDITIONS])
        compared = [] if tables is None else compare_rows_over_conditions(tables, self.margin(Criterion.MEAN))
        return [*compared, *([None] * (len(self.keys) - len(compared)))]

    def margin(self, criterion: Criterion) -> float:
        """Difference of values of a criterion up to which rows are practically equal."""
        first = next(iter(self.tables.values()))
        if first.margin is not None:
            return first.margin
        scale = (
            self.losses.min(axis=0).mean() if criterion is Criterion.REGRET else self.criterion_values(criterion).min()
        )
        return default_margin(float(scale), has_correctness=first.has_accuracy)

    def find_outcome_tables_per_condition(self, keys: Sequence[RowKey]) -> list[OutcomeTable] | None:
        """Outcomes of rows in each condition, joined where targets identify the examples.

        None for fewer than two rows or examples.
        """
        if len(keys) < 2:
            return None
        tables = [table.find_outcome_table_of_rows(keys) for table in self.tables.values()]
        complete = [table for table in tables if table is not None]
        return join_conditions_by_target(complete) if len(complete) == len(tables) else None


def rank_rows_over_conditions(tables: Tables) -> RowsOverConditions:
    """The rows of all conditions."""
    first = next(iter(tables.values()))
    outcomes = [single.outcomes for table in tables.values() for single in table.per_network_tables]
    distinct = merge_rows_equal_at_all_sizes(
        [table.board for table in tables.values()], outcomes, per_slot=first.per_slot
    )
    by_key = [{row.key: row for row in rows.board.rows} for rows in distinct]
    losses: dict[RowKey, list[float]] = {}
    without_value: dict[RowKey, LeaderboardRow] = {}
    for key in distinct[0].batch_sizes:
        members = [rows[key] for rows in by_key]
        missing = next((row for row in members if row.rank is None), None)
        if missing is None:
            losses[key] = [row.metrics[first.board.ranked_on].loss.mean for row in members]
        else:
            without_value[key] = missing
    keys = sorted(losses, key=lambda key: float(np.mean(losses[key])))
    return RowsOverConditions(
        tables=tables,
        keys=tuple(keys),
        batch_sizes=distinct[0].batch_sizes,
        losses=np.asarray([losses[key] for key in keys], np.float64).reshape(len(keys), len(tables)),
        without_value=tuple(without_value.values()),
    )
