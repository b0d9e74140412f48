"""What to use at each inference mini-batch size, under each criterion, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.api.ranked.condition_recommendation import RecommendationOverConditions
from bln_search.api.ranked.result_table import Record, ResultTable, make_plotly_figure
from bln_search.ranking.selection.condition_criteria import Criterion
from bln_search.ranking.selection.eligible_rows import EligibilityBasis
from bln_search.reports.charts.ranked_rows import criterion_values_by_batch_size_chart
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

_COLUMNS = (
    ("batch_size", "batch", CellKind.NUMBER, ""),
    ("over", "over", CellKind.CODE, ""),
    ("row", "use", CellKind.CODE, ""),
    ("independent", "independent", CellKind.CODE, ""),
    ("value", "value", CellKind.NUMBER, "value: what is minimized"),
    ("excess", "above lowest", CellKind.NUMBER, ""),
    (
        "regret",
        "regret",
        CellKind.NUMBER,
        "regret: largest loss above the lowest loss of a condition at this size",
    ),
    ("as_is", "as is", CellKind.NUMBER, "as is: value of the network before conversion"),
    ("alternative", "best independent", CellKind.CODE, ""),
    (
        "alternative_cost",
        "its cost",
        CellKind.NUMBER,
        "best independent: the best row that is independent of the mini-batch; its cost: value above that of the row "
        "to use",
    ),
)
"""Name in records, heading, kind and legend of the printed columns."""

_KEYS = "batch_size", "over", "row"


@dataclass(frozen=True, repr=False)
class RecommendationsByBatchSizeAndCriterion(ResultTable):
    """One recommendation for each mini-batch size and criterion; printing it prints a table.

    Attributes:
        recommendations: By increasing mini-batch size, then by criterion.
        batch_sizes: The mini-batch size of each recommendation.
    """

    recommendations: tuple[RecommendationOverConditions, ...]
    batch_sizes: tuple[int, ...]

    def to_records(self) -> list[Record]:
        """One dictionary for each mini-batch size and criterion.

        `value` is what is minimized, and `excess` is `value` minus the lowest value of any row. `regret` is the largest
        loss above the lowest loss of a condition. `alternative` is the best row that is independent of the mini-batch,
        `alternative_cost` its value minus `value`; both are None where the row itself is independent.
        """
        return [
            _recommendation_to_record(item, size)
            for item, size in zip(self.recommendations, self.batch_sizes, strict=True)
        ]

    def plot(self, over: str = Criterion.WORST) -> Any:
        """The value by mini-batch size of the row to use, of the network before conversion, and of the best other rows.

        Args:
            over: The criterion, or the name of a condition.

        Returns:
            A `plotly.graph_objects.Figure`.

        Raises:
            ValueError: The criterion is unknown.
        """
        items = [item for item in self.recommendations if item.over == over]
        if not items:
            names = ", ".join(dict.fromkeys(str(item.over) for item in self.recommendations))
            raise ValueError(f"over={over!r} is unknown: give one of {names}")
        values: dict[str, list[float | None]] = {
            "lowest": [item.value - item.excess for item in items],
            "row to use": [item.value for item in items],
            "best independent row": [
                item.value + item.alternative_cost if item.is_independent or item.alternative else None
                for item in items
            ],
            "as is": [item.as_is for item in items],
        }
        shown = {name: line for name, line in values.items() if any(value is not None for value in line)}
        return make_plotly_figure(
            criterion_values_by_batch_size_chart(list(dict.fromkeys(self.batch_sizes)), shown, over)
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(set(self.batch_sizes))} mini-batch sizes>"

    def _table_with_sentences(self) -> tuple[FittedTable, Sequence[str]]:
        records = self.to_records()

        columns = [
            Column(
                heading,
                [_format_record_value(record[name]) for record in records],
                kind,
                legend=legend,
                is_key=name in _KEYS,
                drop_order=1 if name == "excess" else None,
            )
            for name, heading, kind, legend in _COLUMNS
        ]
        return FittedTable(columns), list(self._class_frequencies_lines())

    def _class_frequencies_lines(self) -> Iterator[str]:
        """At which mini-batch sizes, and under which criteria, no row has a lower loss than the class frequencies."""
        for size in dict.fromkeys(self.batch_sizes):
            items = (item for item, other in zip(self.recommendations, self.batch_sizes, strict=True) if other == size)
            names = [str(item.over) for item in items if item.basis is not EligibilityBasis.LOSS]
            if names:
                yield (
                    f"With mini-batches of {size}, no row has a lower loss than predicting the class frequencies: "
                    f"{', '.join(names)}."
                )


def _recommendation_to_record(item: RecommendationOverConditions, batch_size: int) -> Record:
    return {
        "batch_size": batch_size,
        "over": str(item.over),
        "row": str(item.row),
        "configuration": str(item.row.configuration),
        "population": item.row.row.estimate,
        "independent": item.is_independent,
        "value": item.value,
        "excess": item.excess,
        "regret": max(item.regrets.values()),
        "as_is": item.as_is,
        "alternative": None if item.alternative is None else str(item.alternative),
        "alternative_cost": None if item.alternative is None else item.alternative_cost,
    }


def _format_record_value(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
