"""The table of several conditions, for printing and as records: one line for each row, one loss for each condition."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.api.conditions.rows import RowsOverConditions
from bln_search.api.ranked.printing import mark_rows_of_all_sizes
from bln_search.api.ranked.records import Record
from bln_search.core.enums import Split
from bln_search.core.loss_description import LossDescription
from bln_search.core.method import Statistic
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.condition_criteria import (
    Criterion,
    compute_criterion_values,
    regret_by_row_and_condition,
)
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.reports.leaderboard_columns import METRICS, SPLITS, find_metric_value
from bln_search.reports.terminal.columns import CellKind, Column
from bln_search.reports.terminal.fitted_table import FittedTable
from bln_search.reports.terminal.row_columns import row_identity_columns, verdict_column

_DROP_VERDICT, _DROP_POPULATION = 1, 2

_CRITERION_LEGENDS = {
    Criterion.MEAN: "mean: of the losses of all conditions",
    Criterion.WORST: "worst: highest loss of any condition",
    Criterion.REGRET: "regret: largest loss above the lowest loss of a condition",
}


def build_conditions_table(rows: RowsOverConditions, batch_sizes: Sequence[int]) -> FittedTable:
    """Rows by increasing mean over conditions. batch_sizes: all sizes that were evaluated."""
    numbers = [
        Column(
            name,
            [f"{loss:.4f}" for loss in rows.losses[:, position]],
            CellKind.NUMBER,
            legend="" if position else f"numbers: {_shared_score_description(rows).text} (lower is better)",
        )
        for position, name in enumerate(rows.condition_names)
    ]
    criteria = [
        Column(
            criterion,
            [f"{value:.4f}" for value in (rows.criterion_values(criterion) if rows.keys else [])],
            CellKind.NUMBER,
            legend=legend,
        )
        for criterion, legend in _CRITERION_LEGENDS.items()
    ]
    verdict = verdict_column(rows.verdicts, _DROP_VERDICT, "the first one, in the mean")
    columns = [
        *([] if verdict is None else [verdict]),
        *row_identity_columns(rows.keys, _DROP_POPULATION),
        *numbers,
        *criteria,
    ]
    notes = [
        f"no value in every condition: {row.configuration} ({row.reason or row.state})"
        for row in _distinct_rows_without_value(rows)
    ]
    table = FittedTable(columns, notes=notes)
    return mark_rows_of_all_sizes(table, [rows.batch_sizes[key] for key in rows.keys], batch_sizes)


def _shared_score_description(rows: RowsOverConditions) -> LossDescription:
    """What the loss is, which is the same in all conditions."""
    return next(iter(rows.tables.values())).score


def _distinct_rows_without_value(rows: RowsOverConditions) -> list[LeaderboardRow]:
    by_reason = {(row.configuration, row.reason): row for row in rows.without_value}
    return list(by_reason.values())


def rows_over_conditions_to_records(rows: RowsOverConditions) -> list[Record]:
    """One record for each row, by increasing mean over conditions; rows without a value in every condition are last."""
    tables = rows.tables
    first = next(iter(tables.values()))
    above = regret_by_row_and_condition(rows.losses) if rows.keys else rows.losses
    values = (
        {criterion: compute_criterion_values(rows.losses, criterion) for criterion in Criterion} if rows.keys else {}
    )
    keys = [*rows.keys, *(row.key for row in rows.without_value)]
    reasons = {row.key: row.reason or str(row.state) for row in rows.without_value}
    records = []
    for index, key in enumerate(keys):
        has_value = index < len(rows.keys)
        record: Record = {"configuration": str(key.configuration)}
        record |= {statistic.value: key.configuration.source_of(statistic).value for statistic in Statistic}
        record |= {
            "population": key.estimate,
            "batch_size": key.batch_size,
            "batch_sizes": " ".join(map(str, rows.batch_sizes[key])),
            "independent": is_deterministic_configuration(key.configuration, per_slot=first.per_slot),
            "verdict": rows.verdicts[index] if has_value else None,
        }
        for criterion in Criterion:
            record[str(criterion)] = float(values[criterion][index]) if has_value else None
        for position, name in enumerate(tables):
            row = rows.get_row(name, key)
            record[f"{name}_regret"] = float(above[index, position]) if has_value else None
            for split in SPLITS:
                if split is Split.TEST and not any(split in other.metrics for other in tables[name].board.rows):
                    continue
                for metric in METRICS if first.has_accuracy else METRICS[:1]:
                    value = find_metric_value(row, split, metric)
                    record[f"{name}_{split}_{metric}"] = None if value is None else value.mean
        record["reason"] = reasons.get(key)
        records.append(record)
    return records
