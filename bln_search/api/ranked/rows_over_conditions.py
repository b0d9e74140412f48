"""Rows that have a value in every condition, with their losses: compared, printed and as records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bln_search.api.ranked.equal_rows import SizesByKey, merge_rows_equal_at_all_sizes
from bln_search.api.ranked.result_table import Record, mark_rows_of_all_sizes
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.enums import Split
from bln_search.core.method import Statistic
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.condition_comparison import (
    compare_rows_over_conditions,
    join_conditions_by_target,
)
from bln_search.ranking.selection.condition_criteria import (
    Criterion,
    compute_criterion_values,
    regret_by_row_and_condition,
)
from bln_search.ranking.selection.eligible_rows import EligibleRows, find_eligible_rows
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.reports.formatting import format_loss
from bln_search.reports.leaderboard_table import row_identity_columns, verdict_column
from bln_search.reports.metric_columns import METRICS, SPLITS, find_metric_value
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

MAX_COMPARED_ROWS_OVER_CONDITIONS = 200
"""Number of rows, from the best one down, that are compared over conditions."""

Tables = Mapping[str, RankedConfigurations]

_DROP_VERDICT, _DROP_POPULATION, _DROP_LAST_CONDITION = 1, 2, 3
"""Order in which a narrow terminal drops columns; of the conditions the last one first."""

_CRITERION_LEGENDS = {
    Criterion.MEAN: "mean: of the losses of all conditions",
    Criterion.WORST: "worst: highest loss of any condition",
    Criterion.REGRET: "regret: largest loss above the lowest loss of a condition",
}


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
    def first_table(self) -> RankedConfigurations:
        """The table of the first condition, which has what all conditions share: the score, its margin and rows."""
        return next(iter(self.tables.values()))

    def is_independent(self, key: RowKey) -> bool:
        """Whether the output of a row for an example is independent of the mini-batch."""
        return is_deterministic_configuration(key.configuration, per_slot=self.first_table.per_slot)

    def criterion_values(self, criterion: Criterion) -> NDArray[np.float64]:
        """Value of each row."""
        return compute_criterion_values(self.losses, criterion)

    def find_eligible_rows(self, over: str) -> EligibleRows:
        """The rows that may be recommended. over: a criterion, or the name of a condition, which then counts alone."""
        names = [over] if over in self.tables else list(self.tables)
        return find_eligible_rows(
            self.losses[:, [list(self.tables).index(name) for name in names]],
            [[self._accuracy(name, key) for name in names] for key in self.keys],
            [self.tables[name].class_prior for name in names],
            [_count_ranking_examples(self.tables[name]) for name in names],
            self.as_is_index,
        )

    def _accuracy(self, condition: str, key: RowKey) -> float:
        """Mean accuracy on the split that ranks; NaN for a score without correctness."""
        accuracy = self.get_row(condition, key).metrics[self.first_table.board.ranked_on].accuracy
        return math.nan if accuracy is None else accuracy.mean

    def get_row(self, condition: str, key: RowKey) -> LeaderboardRow:
        """The row of a condition with this key."""
        return self._rows_by_condition_and_key[condition][key]

    @cached_property
    def _rows_by_condition_and_key(self) -> dict[str, dict[RowKey, LeaderboardRow]]:
        return {name: {row.key: row for row in table.board.rows} for name, table in self.tables.items()}

    @cached_property
    def as_is_row_key(self) -> RowKey | None:
        """The row of the network before conversion, at its size of lowest mean loss; None where there is none."""
        deployed = self.first_table.deployed
        if deployed is None:
            return None
        row = deployed.configuration, deployed.estimate
        return next((key for key in self.keys if (key.configuration, key.estimate) == row), None)

    @property
    def as_is_index(self) -> int | None:
        """Position of `as_is_row_key`; None where there is none."""
        return None if self.as_is_row_key is None else self.keys.index(self.as_is_row_key)

    @cached_property
    def verdicts(self) -> list[RowVerdict | None]:
        """What is known about the mean of each row beside that of the first one; None for rows not compared."""
        tables = self.find_outcome_tables_per_condition(self.keys[:MAX_COMPARED_ROWS_OVER_CONDITIONS])
        compared = [] if tables is None else compare_rows_over_conditions(tables, self.margin(Criterion.MEAN))
        return [*compared, *([None] * (len(self.keys) - len(compared)))]

    def margin(self, criterion: Criterion) -> float:
        """Difference of values of a criterion up to which rows are practically equal."""
        first = self.first_table
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

    def to_table(self, batch_sizes: Sequence[int]) -> FittedTable:
        """The rows by increasing mean over conditions. batch_sizes: all sizes that were evaluated."""
        score = f"numbers: {self.first_table.score.text} (lower is better)"
        numbers = [
            Column(
                name,
                list(map(format_loss, losses)),
                CellKind.NUMBER,
                legend="" if position else score,
                drop_order=_DROP_LAST_CONDITION + len(self.tables) - position if position else None,
            )
            for position, (name, losses) in enumerate(zip(self.tables, self.losses.T, strict=True))
        ]
        for criterion, legend in _CRITERION_LEGENDS.items():
            cells = list(map(format_loss, self.criterion_values(criterion))) if self.keys else []
            numbers.append(Column(criterion, cells, CellKind.NUMBER, legend=legend))
        verdict = verdict_column(self.verdicts, _DROP_VERDICT, "the first one, in the mean")
        columns = [
            *([] if verdict is None else [verdict]),
            *row_identity_columns(self.keys, _DROP_POPULATION),
            *numbers,
        ]
        by_reason = {(row.configuration, row.reason): row for row in self.without_value}
        notes = [
            f"no value in every condition: {row.configuration} ({row.reason or row.state})"
            for row in by_reason.values()
        ]
        sizes = [self.batch_sizes[key] for key in self.keys]
        return mark_rows_of_all_sizes(FittedTable(columns, notes=notes), sizes, batch_sizes)

    def to_records(self) -> list[Record]:
        """One record for each row, by increasing mean over conditions; rows without a value somewhere are last."""
        has_rows = bool(self.keys)
        regrets = regret_by_row_and_condition(self.losses) if has_rows else self.losses
        values: dict[Criterion, NDArray[np.float64]] = (
            {criterion: self.criterion_values(criterion) for criterion in Criterion} if self.keys else {}
        )
        reasons = {row.key: row.reason or str(row.state) for row in self.without_value}
        records = []
        for index, key in enumerate([*self.keys, *reasons]):
            has_value = index < len(self.keys)
            record: Record = {"configuration": str(key.configuration)}
            record |= {statistic.value: key.configuration.source_of(statistic).value for statistic in Statistic}
            record |= {
                "population": key.estimate,
                "batch_size": key.batch_size,
                "batch_sizes": " ".join(map(str, self.batch_sizes[key])),
                "independent": self.is_independent(key),
                "verdict": self.verdicts[index] if has_value else None,
            }
            for criterion in Criterion:
                record[str(criterion)] = float(values[criterion][index]) if has_value else None
            for position, name in enumerate(self.tables):
                record[f"{name}_regret"] = float(regrets[index, position]) if has_value else None
                record |= self._metrics_of_condition(name, key)
            record["reason"] = reasons.get(key)
            records.append(record)
        return records

    def _metrics_of_condition(self, name: str, key: RowKey) -> Record:
        """Loss and accuracy of a row on each split with results."""
        has_test = any(Split.TEST in row.metrics for row in self.tables[name].board.rows)
        record: Record = {}
        for split in SPLITS if has_test else SPLITS[:1]:
            for metric in METRICS if self.first_table.has_accuracy else METRICS[:1]:
                value = find_metric_value(self.get_row(name, key), split, metric)
                record[f"{name}_{split}_{metric}"] = None if value is None else value.mean
        return record


def _count_ranking_examples(table: RankedConfigurations) -> int:
    outcomes = table.per_network_tables[0].outcomes
    return max(len(of_row.losses) for key, of_row in outcomes.items() if key.split is table.board.ranked_on)


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
