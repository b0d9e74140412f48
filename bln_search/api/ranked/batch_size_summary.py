"""What to use at each inference mini-batch size, under each criterion, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from bln_search.api.ranked.charted_table import ChartedTable, make_plotly_figure, write_image
from bln_search.api.ranked.condition_recommendation import RecommendationOverConditions
from bln_search.api.ranked.result_table import Record
from bln_search.ranking.selection.condition_criteria import Criterion
from bln_search.ranking.selection.eligible_rows import EligibilityBasis
from bln_search.reports.charts.batch_sizes import criterion_values_by_batch_size_chart
from bln_search.reports.charts.chart import Chart
from bln_search.reports.formatting import format_loss
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

_COLUMNS = (
    ("batch_size", "batch", CellKind.NUMBER, ""),
    ("over", "over", CellKind.TEXT, ""),
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
_DROPPED = "excess", "regret", "independent", "alternative_cost", "alternative", "as_is"
"""Columns that a narrow terminal drops, in this order."""

_QUANTITIES: Mapping[str, str] = {
    Criterion.MEAN: "mean loss over conditions",
    Criterion.WORST: "mean loss of the worst condition",
    Criterion.REGRET: "largest regret of a condition",
}
"""What a criterion minimizes."""


@dataclass(frozen=True, repr=False)
class RecommendationsByBatchSizeAndCriterion(ChartedTable):
    """One recommendation for each mini-batch size and criterion; printing it prints a table.

    Attributes:
        recommendations: By increasing mini-batch size, then by criterion.
        batch_sizes: The mini-batch size of each recommendation.
        unit: Unit of the values; empty for a loss without one.
    """

    recommendations: tuple[RecommendationOverConditions, ...]
    batch_sizes: tuple[int, ...]
    unit: str = ""

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

        In the shaded region values are practically equal to the lowest one. Values far above the others are marked at
        the end of the axis.

        Args:
            over: The criterion, or the name of a condition.

        Returns:
            A `plotly.graph_objects.Figure`.

        Raises:
            ValueError: The criterion is unknown.
        """
        return make_plotly_figure(self._make_chart(over))

    def savefig(
        self, path: str | PathLike[str], *, over: str = Criterion.WORST, width_mm: float = 85, dpi: float = 300
    ) -> Path:
        """Write the chart of `plot` as an image; see `RankedConfigurations.savefig`. over: As of `plot`."""
        return write_image(self._make_chart(over), path, width_mm=width_mm, dpi=dpi)

    def _make_chart(self, over: str = Criterion.WORST) -> Chart:
        items = [item for item in self.recommendations if item.over == over]
        if not items:
            names = ", ".join(dict.fromkeys(str(item.over) for item in self.recommendations))
            raise ValueError(f"over={over!r} is unknown: give one of {names}")
        lowest = [item.value - item.excess for item in items]
        values: dict[str, list[float | None]] = {
            "lowest": [*lowest],
            "row to use": [item.value for item in items],
            "best independent row": [
                item.value + item.alternative_cost if item.is_independent or item.alternative else None
                for item in items
            ],
            "as is": [item.as_is for item in items],
        }
        return criterion_values_by_batch_size_chart(
            list(dict.fromkeys(self.batch_sizes)),
            {name: line for name, line in values.items() if any(value is not None for value in line)},
            name=_QUANTITIES.get(over, f"mean loss in the condition {over}"),
            unit=self.unit,
            lowest=lowest,
            margins=[item.margin for item in items],
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
                drop_order=_DROPPED.index(name) if name in _DROPPED else None,
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
    return format_loss(value) if isinstance(value, float) else str(value)
