"""The ranked tables of a network under several validation conditions, and recommendations over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from bln_search.api.ranked.batch_size_summary import RecommendationsByBatchSizeAndCriterion
from bln_search.api.ranked.charted_table import ChartedTable
from bln_search.api.ranked.condition_recommendation import RecommendationOverConditions, recommend_over_conditions
from bln_search.api.ranked.external_results import ExternalResultsArguments, build_external_results
from bln_search.api.ranked.file import write_ranked_tables
from bln_search.api.ranked.result_table import (
    Record,
    format_chart_row_label,
    left_out_lines,
)
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.rows_over_conditions import RowsOverConditions, rank_rows_over_conditions
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.errors import ModelError
from bln_search.ranking.selection.condition_criteria import Criterion
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.condition_heat_map import row_losses_by_condition_heat_map
from bln_search.reports.charts.drawn_rows import IN_USE, RECOMMENDED
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.external_results import ExternalResults
from bln_search.specs.sections.condition import CLEAN


@dataclass(frozen=True, repr=False)
class RankedConditions(ChartedTable):
    """Ranked tables of several conditions; printing them prints one line for each row, with its loss in each condition.

    All conditions were evaluated with the same population values. Rows that are equal at all mini-batch sizes stand
    once. The regret of a row in a condition is its loss minus the lowest loss of any row there.

    Example:
        ranked["noise"]                                      # the ranked table of one condition
        ranked.recommended_for(batch_size=4)                 # the row whose highest loss over the conditions is lowest
        ranked.recommended_for(batch_size=4, over="regret")  # or "mean", or the name of a condition
        print(ranked.recommendation_for(batch_size=4))       # why, what it costs, and the alternative
        print(ranked.by_batch_size)                          # what to use at each mini-batch size
        ranked.at_batch_size(4)                              # the rows of one mini-batch size
        ranked.of_network(1)                                 # of several networks: the tables of the second one

    Attributes:
        conditions: The ranked table of each condition, by name.
    """

    conditions: Mapping[str, RankedConfigurations]

    def __getitem__(self, name: str) -> RankedConfigurations:
        """The table of a condition.

        Raises:
            KeyError: There is no such condition.
        """
        if name not in self.conditions:
            raise KeyError(f"there is no condition {name!r}: there are {', '.join(self.conditions)}")
        return self.conditions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.conditions)

    def __len__(self) -> int:
        return len(self.conditions)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The inference mini-batch sizes, in increasing order."""
        tables = self.conditions.values()
        return tuple(sorted({row.batch_size for table in tables for row in table.board.rows}))

    @cached_property
    def rows_over_conditions(self) -> RowsOverConditions:
        """The rows of the printed table."""
        return rank_rows_over_conditions(self.conditions)

    def to_external_results(
        self, name: str, *, ranked_under: str | None = None, **description: Unpack[ExternalResultsArguments]
    ) -> ExternalResults:
        """The results of all conditions without population values, to submit them to a service as one study.

        Values of `metrics=` are not part of them.

        Args:
            name: Name of the study.
            ranked_under: The condition whose loss ranks the rows; by default `clean`, or the first one. The others are
                further columns of the table.
            description: What the tables do not contain; see `RankedConfigurations.to_external_results`.

        Raises:
            KeyError: There is no such condition.
            ModelError: The results cannot be submitted; the message says why.
        """
        ranking = ranked_under or (CLEAN if CLEAN in self.conditions else next(iter(self.conditions)))
        others = {condition: table for condition, table in self.conditions.items() if condition != ranking}
        return build_external_results(self[ranking], name, ranking_condition=ranking, conditions=others, **description)

    def at_batch_size(self, batch_size: int) -> RankedConditions:
        """The tables of one inference mini-batch size; regrets are those among its own rows.

        Raises:
            ValueError: No row was evaluated at this size.
        """
        if batch_size not in self._tables_by_batch_size:
            tables = {name: table.at_batch_size(batch_size) for name, table in self.conditions.items()}
            self._tables_by_batch_size[batch_size] = replace(self, conditions=tables)
        return self._tables_by_batch_size[batch_size]

    @cached_property
    def _tables_by_batch_size(self) -> dict[int, RankedConditions]:
        return {}

    def of_network(self, index: int) -> RankedConditions:
        """The tables of one of several networks, by its position in the evaluated list.

        Raises:
            IndexError: There is no such network.
        """
        return replace(self, conditions={name: table.of_network(index) for name, table in self.conditions.items()})

    @property
    def recommended(self) -> RankedConfiguration:
        """The row to use at the best mini-batch size, whose highest loss over the conditions is lowest."""
        return self.recommended_for()

    def recommended_for(self, *, batch_size: int | None = None, over: str = Criterion.WORST) -> RankedConfiguration:
        """The row to use; see `recommendation_for`, which has the reasons and the alternative."""
        return self.recommendation_for(batch_size=batch_size, over=over).row

    def recommendation_for(
        self, *, batch_size: int | None = None, over: str = Criterion.WORST
    ) -> RecommendationOverConditions:
        """Select a row at one mini-batch size, or among the rows of all sizes.

        Among the rows near the lowest value of the criterion, the cheapest that is independent of the mini-batch. The
        row of the network before conversion is kept unless its expected value is higher by more than the margin, and a
        change is probably harmless.

        Args:
            batch_size: Inference mini-batch size; None for the best over all sizes.
            over: What is minimized: `mean` (of all conditions), `worst` (the highest loss of any condition), `regret`
                (the largest loss above the lowest loss of a condition), or the name of a condition.

        Raises:
            ValueError: No row was evaluated at this size, or the criterion is unknown.
            ModelError: No row has a value in every condition.
        """
        if over not in [*Criterion, *self.conditions]:
            raise ValueError(
                f"over={over!r} is unknown: give {', '.join(Criterion)}, or a condition: {', '.join(self.conditions)}"
            )
        return (self if batch_size is None else self.at_batch_size(batch_size)).recommendation_over(over)

    def recommendation_over(self, over: str) -> RecommendationOverConditions:
        """The recommendation among all rows of these tables, computed once. over: as of `recommendation_for`."""
        if over not in self._recommendation_cache:
            self._recommendation_cache[over] = recommend_over_conditions(self.rows_over_conditions, over)
        return self._recommendation_cache[over]

    @cached_property
    def _recommendation_cache(self) -> dict[str, RecommendationOverConditions]:
        return {}

    @property
    def by_batch_size(self) -> RecommendationsByBatchSizeAndCriterion:
        """What to use at each mini-batch size under each criterion, and what it costs."""
        names = [*Criterion, *self.conditions]
        pairs = [(size, over) for size in self.batch_sizes for over in names]
        return RecommendationsByBatchSizeAndCriterion(
            tuple(self.recommendation_for(batch_size=size, over=over) for size, over in pairs),
            tuple(size for size, _ in pairs),
            unit=self.rows_over_conditions.first_table.score.unit,
        )

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row."""
        return self.rows_over_conditions.to_records()

    def plot(self) -> Any:
        """The loss of each row in each condition as a heat map, as a `plotly.graph_objects.Figure`.

        Colors show regrets on a logarithmic scale; regrets far above the others are marked. `★` marks the row
        that is recommended for the worst condition, `●` the row in use. Of more than 40 rows those of lowest mean over
        conditions are drawn, with the marked ones.

        Raises:
            ModelError: No row has a value in every condition.
        """
        return super().plot()

    def _make_chart(self) -> Chart:
        rows = self.rows_over_conditions
        if not rows.keys:
            raise ModelError("a chart needs a row with a value in every condition")
        return row_losses_by_condition_heat_map(
            [format_chart_row_label(key, rows.batch_sizes[key], self.batch_sizes) for key in rows.keys],
            list(self.conditions),
            rows.losses.tolist(),
            unit=rows.first_table.score.unit,
            margin=rows.margin(Criterion.REGRET),
            marks={
                RECOMMENDED: rows.keys.index(self.recommended.row.key),
                IN_USE: None if rows.as_is_row_key is None else rows.keys.index(rows.as_is_row_key),
            },
        )

    def save(self, path: str | PathLike[str]) -> Path:
        """Write all tables to a file, as `RankedConfigurations.save` does."""
        count = len(next(iter(self.conditions.values())).per_network_tables)
        networks: list[dict[str | None, RankedConfigurations]] = [
            {name: table.per_network_tables[index] for name, table in self.conditions.items()} for index in range(count)
        ]
        return write_ranked_tables(networks, path)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.conditions)}; {len(self.rows_over_conditions.keys)} rows>"

    def _table_with_sentences(self) -> tuple[FittedTable, Sequence[str]]:
        criteria = list(Criterion) if self.rows_over_conditions.keys else []
        lines = [line for over in criteria for line in self.recommendation_over(over).headline_and_fact_lines]
        if len(self.batch_sizes) > 1:
            lines.append("The row to use at each mini-batch size: by_batch_size.")
        left_out = (
            line for name, table in self.conditions.items() for line in left_out_lines(table.left_out_by_split, name)
        )
        return self.rows_over_conditions.to_table(self.batch_sizes), [*left_out, *lines]
