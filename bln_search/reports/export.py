"""The leaderboard as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from bln_search.core.configuration import InferenceConfiguration, Statistic
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, MeanStd, SplitMetrics
from bln_search.reports.leaderboard_columns import METRICS, SPLIT_METRICS, SPLITS, metric_of
from bln_search.reports.sentences.leaderboard import leaderboard_warning, row_reason

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
    *(f"{split}_{metric}_{part}" for split, metric in SPLIT_METRICS for part in ("mean", "deviation")),
    "reason",
)


def leaderboard_csv(board: Leaderboard) -> str:
    """CSV with a header and one line per row; missing values are empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, (*COLUMNS, "ranked_on"), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**flat_row(row), "ranked_on": board.ranked_on} for row in board.rows)
    return buffer.getvalue()


def leaderboard_json(board: Leaderboard, header: dict[str, Any]) -> str:
    """JSON object of `header`, the split that ranks, the warning, and the rows."""
    content = {
        **header,
        "ranked_on": board.ranked_on,
        "warning": leaderboard_warning(board),
        "rows": [flat_row(row) for row in board.rows],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


def flat_row(row: LeaderboardRow) -> dict[str, Any]:
    """A row as JSON values by COLUMNS."""
    flat: dict[str, Any] = {
        "rank": row.rank,
        "arm": row.arm,
        "parameters": row.point or None,
        "configuration": str(row.configuration),
        **{statistic.value: row.configuration.source(statistic).value for statistic in Statistic},
        "population": row.estimate,
        "batch_size": row.batch_size,
        "state": row.state,
        "seeds": row.seeds,
        "reason": row_reason(row),
    }
    for split, metric in SPLIT_METRICS:
        value = metric_of(row, split, metric)
        flat[f"{split}_{metric}_mean"] = None if value is None else value.mean
        flat[f"{split}_{metric}_deviation"] = None if value is None else value.deviation
    return flat


def row_from_flat(flat: Mapping[str, Any]) -> LeaderboardRow:
    """Inverse of `flat_row`; the reason of a missing rank is text."""
    metrics = {}
    for split in SPLITS:
        loss, accuracy = (_mean_std(flat, split, metric) for metric in METRICS)
        if loss is not None and accuracy is not None:
            metrics[split] = SplitMetrics(loss, accuracy)
    return LeaderboardRow(
        rank=flat["rank"],
        arm=flat["arm"],
        configuration=InferenceConfiguration(flat["configuration"]),
        estimate=None if flat["population"] is None else PopulationEstimate(flat["population"]),
        batch_size=flat["batch_size"],
        state=EvaluationState(flat["state"]),
        seeds=flat["seeds"],
        metrics=metrics,
        reason=flat["reason"],
        point=flat["parameters"] or "",
    )


def _mean_std(flat: Mapping[str, Any], split: Split, metric: str) -> MeanStd | None:
    mean = flat[f"{split}_{metric}_mean"]
    return None if mean is None else MeanStd(mean, flat[f"{split}_{metric}_deviation"])
