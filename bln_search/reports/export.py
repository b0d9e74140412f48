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
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, SplitFigures, Summary

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
    *(
        f"{split}_{metric}_{part}"
        for split in (Split.VALIDATION, Split.TEST)
        for metric in ("loss", "accuracy")
        for part in ("mean", "deviation")
    ),
    "reason",
)


def leaderboard_csv(board: Leaderboard) -> str:
    """One line a row under a header; empty where there is no value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, (*COLUMNS, "ranked_on"), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**flat_row(row), "ranked_on": board.ranked_on} for row in board.rows)
    return out.getvalue()


def leaderboard_json(board: Leaderboard, about: dict[str, Any]) -> str:
    """`about`, what the order rests on, and the rows."""
    whole = {
        **about,
        "ranked_on": board.ranked_on,
        "warning": board.warning,
        "rows": [flat_row(row) for row in board.rows],
    }
    return json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False)


def flat_row(row: LeaderboardRow) -> dict[str, Any]:
    """A row as plain values under COLUMNS."""
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
        "reason": row.reason,
    }
    for split in (Split.VALIDATION, Split.TEST):
        figures = row.figures.get(split)
        for metric in ("loss", "accuracy"):
            summary = None if figures is None else getattr(figures, metric)
            flat[f"{split}_{metric}_mean"] = None if summary is None else summary.mean
            flat[f"{split}_{metric}_deviation"] = None if summary is None else summary.deviation
    return flat


def row_of(flat: Mapping[str, Any]) -> LeaderboardRow:
    """The row that `flat_row` made plain."""
    figures = {}
    for split in (Split.VALIDATION, Split.TEST):
        loss, accuracy = (_summary(flat, split, metric) for metric in ("loss", "accuracy"))
        if loss is not None and accuracy is not None:
            figures[split] = SplitFigures(loss, accuracy)
    return LeaderboardRow(
        rank=flat["rank"],
        arm=flat["arm"],
        configuration=InferenceConfiguration(flat["configuration"]),
        estimate=None if flat["population"] is None else PopulationEstimate(flat["population"]),
        batch_size=flat["batch_size"],
        state=EvaluationState(flat["state"]),
        seeds=flat["seeds"],
        figures=figures,
        reason=flat["reason"],
        point=flat["parameters"] or "",
    )


def _summary(flat: Mapping[str, Any], split: Split, metric: str) -> Summary | None:
    mean = flat[f"{split}_{metric}_mean"]
    return None if mean is None else Summary(mean, flat[f"{split}_{metric}_deviation"])
