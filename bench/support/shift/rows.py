"""Rows of `bench.shift`: the network as deployed, the best row and the recommended row at each mini-batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bln_search import RankedConditions
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import LeaderboardRow

POPULATION_ONLY, MINI_BATCH_ONLY, BLENDED = (InferenceConfiguration(code) for code in ("TT--", "FF--", "BB--"))
RULES = ("mean", "worst", "regret")
SOURCE = "source"

Row = dict[str, Any]


def describe_row(row: LeaderboardRow) -> Row:
    """Configuration, population, mini-batch size, validation loss and accuracy."""
    metrics = row.metrics[Split.VALIDATION]
    return {
        "configuration": str(row.configuration),
        "population": row.estimate,
        "batch_size": row.batch_size,
        "loss": metrics.loss.mean,
        "accuracy": None if metrics.accuracy is None else metrics.accuracy.mean,
    }


def row_of(table: RankedConfigurations, configuration: InferenceConfiguration, estimate: str | None) -> Row | None:
    """The first row of a configuration and a population; None if there is none."""
    rows = (row for row in table.board.rows if (row.configuration, row.estimate) == (configuration, estimate))
    return next((describe_row(row) for row in rows if row.rank is not None), None)


def summarize_condition(ranked: RankedConditions, condition: str, batch_sizes: Sequence[int]) -> dict[str, Any]:
    """Rows of one condition.

    Returns:
        `as_deployed`: the network before the conversion.
        `target_population`: mean and deviation of the population of the condition (AdaBN); None without one.
        `by_batch_size`: for each mini-batch size the best row, and the recommended rows for this condition and over all
        conditions.
    """
    table = ranked[condition]
    assert table.as_is is not None, "the network was converted by method='same'"
    return {
        "as_deployed": describe_row(table.as_is.row),
        "target_population": row_of(table, POPULATION_ONLY, condition),
        "by_batch_size": {str(size): _rows_of_size(ranked, condition, size) for size in batch_sizes},
    }


def _rows_of_size(ranked: RankedConditions, condition: str, size: int) -> dict[str, Row]:
    of_size = ranked.at_batch_size(size)
    table = of_size[condition]
    rows = {"best": describe_row(table.board.rows[0]), "recommended": describe_row(table.recommended.row)}
    for rule in RULES:
        rows[f"recommended_{rule}"] = _row_with_key(table, of_size.recommended_for(over=rule).row.key)
    return rows


def _row_with_key(table: RankedConfigurations, key: RowKey) -> Row:
    return next(describe_row(row) for row in table.board.rows if row.key == key)


def summarize_blends(ranked: RankedConditions, blends: Sequence[float]) -> dict[str, dict[str, float]]:
    """Losses of blends of all statistics by condition: from `0`, the mini-batch alone, to `1`, the source alone."""
    return {condition: _losses_of_blends(ranked[condition], blends) for condition in ranked}


def _losses_of_blends(table: RankedConfigurations, blends: Sequence[float]) -> dict[str, float]:
    rows = {
        "0": row_of(table, MINI_BATCH_ONLY, None),
        **{str(blend): row_of(table, BLENDED, f"{SOURCE}@{blend}") for blend in blends},
        "1": row_of(table, POPULATION_ONLY, SOURCE),
    }
    return {weight: row["loss"] for weight, row in rows.items() if row is not None}


def recovered_fraction(deployed_clean: float, deployed: float, chosen: float) -> float:
    """Part of the loss due to the shift that a row avoids: 1 for the loss of the deployed network on clean data."""
    return (deployed - chosen) / (deployed - deployed_clean)
