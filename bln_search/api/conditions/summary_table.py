"""The table of several conditions, for printing and as records: one line for each row, one loss for each condition."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.api.conditions.rows import ConditionRows
from bln_search.api.ranked.printing import mark_rows_of_all_sizes
from bln_search.api.ranked.records import Record
from bln_search.core.configuration import Statistic
from bln_search.core.enums import Split
from bln_search.core.score_description import ScoreDescription
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.condition_criteria import Criterion, criterion_by_row, regrets
from bln_search.ranking.selection.recommendation import is_deterministic
from bln_search.reports.leaderboard_columns import METRICS, SPLITS, metric_of
from bln_search.reports.terminal.columns import CellKind, Column
from bln_search.reports.terminal.fitted_table import FittedTable
from bln_search.reports.terminal.row_columns import letters_column, row_identity_columns

_DROP_GROUP, _DROP_POPULATION = 1, 2

_CRITERION_LEGENDS = {
    Criterion.MEAN: "mean: of the losses of all conditions",
    Criterion.WORST: "worst: highest loss of any condition",
    Criterion.REGRET: "regret: largest loss above the lowest loss of a condition",
}


def condition_table(rows: ConditionRows, batch_sizes: Sequence[int]) -> FittedTable:
    """Rows by increasing mean over conditions. batch_sizes: all sizes that were evaluated."""
    numbers = [
        Column(
            name,
            [f"{loss:.4f}" for loss in rows.losses[:, position]],
            CellKind.NUMBER,
            legend="" if position else f"numbers: {_score(rows).text} (lower is better)",
        )
        for position, name in enumerate(rows.conditions)
    ]
    criteria = [
        Column(
            criterion,
            [f"{value:.4f}" for value in (rows.values(criterion) if rows.keys else [])],
            CellKind.NUMBER,
            legend=legend,
        )
        for criterion, legend in _CRITERION_LEGENDS.items()
    ]
    group = _group_column(rows)
    columns = [
        *([] if group is None else [group]),
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


def _score(rows: ConditionRows) -> ScoreDescription:
    """What the loss is, which is the same in all conditions."""
    return next(iter(rows.tables.values())).score


def _distinct_rows_without_value(rows: ConditionRows) -> list[LeaderboardRow]:
    by_reason = {(row.configuration, row.reason): row for row in rows.without_value}
    return list(by_reason.values())


def _group_column(rows: ConditionRows) -> Column | None:
    """Letters of the compact letter display of the mean; None where they add nothing or cannot be read."""
    legend = (
        "group: rows that share a letter do not differ significantly in the mean (5 %, Holm over pairs and conditions)"
    )
    return letters_column(_letters(rows), legend, _DROP_GROUP)


def _letters(rows: ConditionRows) -> list[str | None]:
    """Letters of each row; None for rows that were not compared."""
    letters = None if rows.comparison is None else rows.comparison.letters
    compared = list(letters or [])
    return [*compared, *([None] * (len(rows.keys) - len(compared)))]


def condition_records(rows: ConditionRows) -> list[Record]:
    """One record for each row, by increasing mean over conditions; rows without a value in every condition are last."""
    tables = rows.tables
    first = next(iter(tables.values()))
    letters = _letters(rows)
    above = regrets(rows.losses) if rows.keys else rows.losses
    values = {criterion: criterion_by_row(rows.losses, criterion) for criterion in Criterion} if rows.keys else {}
    keys = [*rows.keys, *(row.key for row in rows.without_value)]
    reasons = {row.key: row.reason or str(row.state) for row in rows.without_value}
    records = []
    for index, key in enumerate(keys):
        has_value = index < len(rows.keys)
        record: Record = {"configuration": str(key.configuration)}
        record |= {statistic.value: key.configuration.source(statistic).value for statistic in Statistic}
        record |= {
            "population": key.estimate,
            "batch_size": key.batch_size,
            "batch_sizes": " ".join(map(str, rows.batch_sizes[key])),
            "independent": is_deterministic(key.configuration, per_slot=first.per_slot),
            "group": letters[index] if has_value else None,
        }
        for criterion in Criterion:
            record[str(criterion)] = float(values[criterion][index]) if has_value else None
        for position, name in enumerate(tables):
            row = rows.row(name, key)
            record[f"{name}_regret"] = float(above[index, position]) if has_value else None
            for split in SPLITS:
                if split is Split.TEST and not any(split in other.metrics for other in tables[name].board.rows):
                    continue
                for metric in METRICS if first.has_accuracy else METRICS[:1]:
                    value = metric_of(row, split, metric)
                    record[f"{name}_{split}_{metric}"] = None if value is None else value.mean
        record["reason"] = reasons.get(key)
        records.append(record)
    return records
