"""The leaderboard as CSV, JSON and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import Statistic
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.condition_fields import (
    CONDITIONS,
    METRIC_FIELDS,
    condition_column_names,
    condition_metrics_from_json_fields,
    condition_metrics_to_json_fields,
    condition_values_by_column,
    flatten_metrics,
    unflatten_metrics,
)
from bln_search.reports.leaderboard_columns import BatchSizes
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, find_unranked_reason
from bln_search.reports.task_metric_fields import task_metric_column_names
from bln_search.reports.train_fields import (
    flatten_train_metrics,
    train_column_names,
    unflatten_generalization_gaps,
    unflatten_train_metrics,
)
from bln_search.specs.study import StudySpec

COLUMNS = (
    "rank",
    "arm",
    "parameters",
    "configuration",
    *(statistic.value for statistic in Statistic),
    "population",
    "batch_size",
    "state",
    "seeds",
    *METRIC_FIELDS,
    "reason",
)


COMPARISON_COLUMNS = (
    "setting",
    "recommended",
    "verdict",
    "loss_above_best",
    "loss_above_best_low",
    "loss_above_best_high",
    "p_value",
    "p_best",
)
"""Columns from the analysis of a study; they have no value in rows that were not compared."""


class ComparisonFieldsByRow:
    """What the analysis of a study says about each row.

    Args:
        analysis: None for a study that is not analyzed.
    """

    def __init__(self, analysis: Analysis | None) -> None:
        comparison = None if analysis is None else analysis.comparison
        recommendation = None if analysis is None else analysis.recommendation
        self._recommended = None if recommendation is None else recommendation.key
        self._rows = {} if comparison is None else {row.key: row for row in comparison.rows}

    def comparison_fields_of_row(self, row: LeaderboardRow) -> dict[str, Any]:
        """The values of COMPARISON_COLUMNS."""
        compared = self._rows.get(row.key)
        difference = None if compared is None or compared.verdict is RowVerdict.BEST else compared.above_best
        return {
            "setting": evaluation_setting_id_of_row(row.key),
            "recommended": None if self._recommended is None else row.key == self._recommended,
            "verdict": None if compared is None else compared.verdict,
            "loss_above_best": None if compared is None else compared.above_best.mean,
            "loss_above_best_low": None if difference is None else difference.low,
            "loss_above_best_high": None if difference is None else difference.high,
            "p_value": None if difference is None else difference.adjusted,
            "p_best": None if compared is None else compared.first_share,
        }


def evaluation_setting_id_of_row(key: RowKey) -> str:
    """What rows with other configurations have in common with this one: arm, point, estimate and batch size."""
    parts = {"arm": key.arm, "parameters": key.point, "population": key.estimate, "batch_size": key.batch_size}
    return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def leaderboard_csv(
    board: Leaderboard,
    comparisons: ComparisonFieldsByRow | None = None,
    sizes: BatchSizes | None = None,
    code_changes: Sequence[str] = (),
) -> str:
    """CSV with a header and one line per row; missing values are empty.

    Args:
        board: The leaderboard.
        comparisons: Adds COMPARISON_COLUMNS.
        sizes: Mini-batch sizes of the rows that stand for several; adds `batch_sizes`, with spaces between them.
        code_changes: How the code of the results changed; adds `code_changes`, the same in every row, if it did.
    """
    buffer = io.StringIO()
    columns = [*flat_table_column_names(board, with_comparisons=comparisons is not None), "ranked_on"]
    if sizes is not None:
        columns.insert(columns.index("batch_size") + 1, "batch_sizes")
    constant = {"code_changes": " ".join(code_changes)} if code_changes else {}
    writer = csv.DictWriter(buffer, [*columns, *constant], lineterminator="\n")
    writer.writeheader()
    for row in board.rows:
        values = {**flat_table_row(row, comparisons), "ranked_on": board.ranked_on, **constant}
        if sizes is not None:
            values["batch_sizes"] = " ".join(map(str, sizes.get(row.key, (row.batch_size,))))
        writer.writerow(values)
    return buffer.getvalue()


def flat_table_column_names(board: Leaderboard, *, with_comparisons: bool) -> tuple[str, ...]:
    """Columns of CSV and Parquet.

    COLUMNS, those of the metrics of the task, of the training split and of conditions, and COMPARISON_COLUMNS.
    """
    comparison_columns = COMPARISON_COLUMNS if with_comparisons else ()
    measured_columns = (
        *(task_metric_column_names(board), train_column_names(board), condition_column_names(board)),
        comparison_columns,
    )
    return (*COLUMNS, *chain.from_iterable(measured_columns))


def flat_table_row(row: LeaderboardRow, comparisons: ComparisonFieldsByRow | None = None) -> dict[str, Any]:
    """A row by `flat_table_column_names`; columns of conditions are missing in a row without metrics under them."""
    flat = row_to_json_fields(row, comparisons)
    flat.pop(CONDITIONS, None)
    return {**flat, **condition_values_by_column(row)}


def loss_and_task_metric_fields(spec: StudySpec, board: Leaderboard) -> dict[str, Any]:
    """What the figures of a study are: name and unit of the loss, and the metrics of the task that rows have."""
    names = board.task_metric_names
    return {
        "loss": asdict(spec.loss_description),
        "metrics": [asdict(metric) for metric in spec.metric_descriptions if metric.name in names],
    }


def leaderboard_json(
    board: Leaderboard, header: dict[str, Any], comparisons: ComparisonFieldsByRow | None = None
) -> str:
    """JSON object of `header`, the split that ranks, the warning, and the rows."""
    content = {
        **header,
        "ranked_on": board.ranked_on,
        "warning": find_test_ranking_warning(board),
        "rows": [row_to_json_fields(row, comparisons) for row in board.rows],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


def leaderboard_jsonl(
    board: Leaderboard, header: dict[str, Any], comparisons: ComparisonFieldsByRow | None = None
) -> str:
    """JSON lines: one object per row, of `header`, the split that ranks, and the row."""
    rows = ({**header, "ranked_on": board.ranked_on, **row_to_json_fields(row, comparisons)} for row in board.rows)
    return "".join(f"{json.dumps(row, allow_nan=False, ensure_ascii=False)}\n" for row in rows)


def row_to_json_fields(row: LeaderboardRow, comparisons: ComparisonFieldsByRow | None = None) -> dict[str, Any]:
    """A row as JSON values by COLUMNS, and by COMPARISON_COLUMNS where `comparisons` is given.

    A row with metrics of the task has the further keys `validation_NAME_mean`, and so on. A row that was evaluated on
    the training split has the further keys TRAIN_FIELDS. Metrics under conditions are a mapping from the name of the
    condition to its metrics, under the key `conditions`.
    """
    flat: dict[str, Any] = {
        "rank": row.rank,
        "arm": row.arm,
        "parameters": row.point or None,
        "configuration": str(row.configuration),
        **{statistic.value: row.configuration.source_of(statistic).value for statistic in Statistic},
        "population": row.estimate,
        "batch_size": row.batch_size,
        "state": row.state,
        "seeds": row.seeds,
        "reason": find_unranked_reason(row),
        **flatten_metrics(row.metrics),
        **flatten_train_metrics(row),
        **condition_metrics_to_json_fields(row),
    }
    return flat if comparisons is None else {**flat, **comparisons.comparison_fields_of_row(row)}


def row_from_json_fields(flat: Mapping[str, Any]) -> LeaderboardRow:
    """Inverse of `row_to_json_fields`; the reason of a missing rank is text."""
    return LeaderboardRow(
        rank=flat["rank"],
        arm=flat["arm"],
        configuration=InferenceConfiguration(flat["configuration"]),
        estimate=flat["population"] or None,
        batch_size=flat["batch_size"],
        state=EvaluationState(flat["state"]),
        seeds=flat["seeds"],
        metrics=unflatten_metrics(flat) | unflatten_train_metrics(flat),
        reason=flat["reason"],
        point=flat["parameters"] or "",
        conditions=condition_metrics_from_json_fields(flat),
        gaps=unflatten_generalization_gaps(flat),
    )
