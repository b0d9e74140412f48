"""Rows of `bench.shift`: the network as deployed, the best row and the recommended row at each mini-batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from bln_search.api.ranked import RankedConfigurations
from bln_search.api.ranked_row import RankedConfiguration
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split

TARGET = "target"
POPULATION_ONLY = InferenceConfiguration("TT--")
RULES = ("worst", "mean")
"""Recommendations over all conditions of a table."""

Row = dict[str, Any]


class RankedConditions(Protocol):
    """Result of `bln_search.evaluate_configurations` with several conditions."""

    @property
    def conditions(self) -> Mapping[str, RankedConfigurations]:
        """The ranked table of each condition."""

    def recommended_for(self, *, batch_size: int, over: str) -> RankedConfiguration:
        """The row to use at a mini-batch size: for a condition, the worst condition, or their mean."""


def describe_row(row: RankedConfiguration) -> Row:
    """Configuration with its estimate, mini-batch size, validation loss and accuracy."""
    metrics = row.row.metrics[Split.VALIDATION]
    return {
        "row": str(row),
        "batch_size": row.row.batch_size,
        "loss": metrics.loss.mean,
        "accuracy": metrics.accuracy.mean,
    }


def best_row(ranked: RankedConfigurations, accept: Callable[[RankedConfiguration], bool]) -> Row | None:
    """The first ranked row that is accepted; None if none is."""
    return next((describe_row(row) for row in ranked if row.row.rank is not None and accept(row)), None)


def is_blended(row: RankedConfiguration) -> bool:
    """BLENDS: whether statistics are α·population + (1 - α)·mini-batch. Only this function recognizes such rows."""
    return "B" in row.configuration.code


def summarize_condition(result: RankedConditions, condition: str, batch_sizes: Sequence[int]) -> dict[str, Any]:
    """Rows of one condition.

    Returns:
        `as_deployed`: the network before the conversion.
        `target_population`: mean and deviation of the target population (AdaBN); None without a target.
        `by_batch_size`: for each mini-batch size the best row without and with blends, and the recommended rows.
    """
    ranked = result.conditions[condition]
    assert ranked.as_is is not None, "the network was converted by method='same'"
    return {
        "as_deployed": describe_row(ranked.as_is),
        "target_population": best_row(
            ranked, lambda row: row.configuration == POPULATION_ONLY and row.row.estimate == TARGET
        ),
        "by_batch_size": {str(size): _rows_of_size(result, condition, size) for size in batch_sizes},
    }


def _rows_of_size(result: RankedConditions, condition: str, size: int) -> dict[str, Row | None]:
    ranked = result.conditions[condition]
    rows = {
        "best": best_row(ranked, lambda row: row.row.batch_size == size and not is_blended(row)),
        "best_blend": best_row(ranked, lambda row: row.row.batch_size == size and is_blended(row)),
        "recommended": describe_row(result.recommended_for(batch_size=size, over=condition)),
    }
    for rule in RULES:
        key = result.recommended_for(batch_size=size, over=rule).row.key
        rows[f"recommended_{rule}"] = best_row(ranked, _has_key(key))
    return rows


def _has_key(key: object) -> Callable[[RankedConfiguration], bool]:
    return lambda row: row.row.key == key


def recovered_fraction(deployed_clean: float, deployed: float, chosen: float) -> float:
    """Part of the loss due to the shift that a row avoids: 1 for the loss of the deployed network on clean data."""
    return (deployed - chosen) / (deployed - deployed_clean)


def losses_of(entries: Iterable[dict[str, Any]], condition: str, size: int, kind: str) -> list[float]:
    """Losses of a kind of row over the seeds that have it."""
    rows = [entry["conditions"][condition]["by_batch_size"][str(size)][kind] for entry in entries]
    return [row["loss"] for row in rows if row is not None]
