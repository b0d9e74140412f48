"""The ranked table of a network: its rows compared over examples, of which one is recommended."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from bln_search.api.ranked.charted_table import ChartedTable
from bln_search.api.ranked.external_results import ExternalResultsArguments, build_external_results
from bln_search.api.ranked.file import write_ranked_tables
from bln_search.api.ranked.records import build_ranked_records, insert_user_metric_columns
from bln_search.api.ranked.result_table import (
    Record,
    format_chart_row_label,
    left_out_lines,
    mark_rows_of_all_sizes,
)
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.rows import RankedRows
from bln_search.core.errors import ModelError
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MAX_COMPARED_ROWS, Comparison
from bln_search.ranking.looks import level_of_look
from bln_search.ranking.paired import compare_rows
from bln_search.ranking.paired.sum_of_means import compare_sums_of_means_with_zero
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior, find_arms_no_better_than_prior
from bln_search.ranking.selection.recommendation import Recommendation, recommend_row
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.comparison import differences_to_best_chart
from bln_search.reports.charts.row_losses import RowLoss, row_losses_chart
from bln_search.reports.formatting import compared_rows_by_key, level_of_comparison
from bln_search.reports.sentences.analysis import summarize_analysis
from bln_search.reports.sentences.recommendation import class_prior_baseline_warning
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reason_lines
from bln_search.specs.external_results import ExternalResults


@dataclass(frozen=True, repr=False)
class RankedConfigurations(RankedRows, ChartedTable):
    """Rows from best to worst, rows without a rank last; printing it prints the table, a notebook shows it.

    Rows that share a letter in the table are not significantly different (`comparison`). A row that is independent of
    the mini-batch and has the same outcomes at all mini-batch sizes stands once, with all its sizes.

    Example:
        ranked[0]         # the first row
        ranked[:3]        # the first three rows
        ranked["TTTT"]    # the best row with this configuration
        ranked.recommended_for(batch_size=4)  # what to use with mini-batches of 4
        ranked.to_frame() # the table as a pandas.DataFrame
        ranked.of_network(1)  # of several networks: the table of the second one
    """

    @property
    def best(self) -> RankedConfiguration:
        """The first row. Raises ModelError if no row has a value."""
        if self.board.best_row is None:
            reason = next((row.reason for row in self.board.rows if row.reason), "there is no row")
            raise ModelError(f"no configuration could be measured: {reason}")
        return self[0]

    @property
    def best_batch_independent(self) -> RankedConfiguration | None:
        """The row of lowest loss that is independent of the mini-batch; None if no ranked row is."""
        return next((candidate for candidate in self if candidate.row.rank and candidate.is_independent), None)

    @property
    def as_is(self) -> RankedConfiguration | None:
        """The row of the network before conversion by `same`, at its best mini-batch size.

        None for a network that was not converted by `same`, and if the row has no rank.
        """
        if self.deployed is None:
            return None
        key = self.deployed.configuration, self.deployed.estimate
        rows = (candidate for candidate in self if candidate.row.rank is not None)
        return next((row for row in rows if (row.configuration, row.row.estimate) == key), None)

    @property
    def recommended(self) -> RankedConfiguration:
        """The row to use: of the rows whose expected loss is within the margin, the cheapest independent one.

        It depends on the mini-batch if all these rows do; `best_batch_independent` never does. The row of the network
        before conversion (`as_is`) is recommended if it is one of them: the question is then which row these networks
        should use, and only examples vary.
        Raises ModelError if no row has a value.
        """
        recommendation = self.recommendation
        if recommendation is None:
            return self.as_is or self.best
        return next(candidate for candidate in self if candidate.row.key == recommendation.key)

    def recommended_for(self, *, batch_size: int | None = None) -> RankedConfiguration:
        """The row to use at one mini-batch size, `at_batch_size(batch_size).recommended`; None for the best size.

        Raises:
            ValueError: No row was evaluated at this size.
            ModelError: No row has a value.
        """
        return (self if batch_size is None else self.at_batch_size(batch_size)).recommended

    def with_margin(self, margin: float) -> Self:
        """The table with another margin, the difference of mean losses up to which rows are practically equal.

        Args:
            margin: In the unit of the loss. By default 0.01 nats for a score that says which predictions are correct,
                else 1 % of the lowest loss.

        Raises:
            ValueError: The margin is negative or not finite.
        """
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
            raise ValueError(f"the margin is a number of at least 0, not {margin!r}")
        if self.staged_reading is not None and self.staged_reading.is_decided:
            raise ValueError("stop='decided' has ended this evaluation with another margin: evaluate without stop=")
        return replace(self, margin=margin)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The reasons for `recommended`; None if fewer than two rows could be compared."""
        if self.comparison is None:
            return None
        return recommend_row(self.comparison, {}, per_slot=self.per_slot, class_prior=self.class_prior)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The best rows, compared over the examples of the split that ranks; None for fewer than two rows or examples.

        With one network, or with `as_is`, it generalizes to other examples; with several networks also to others that
        are trained alike.
        """
        as_is = None if self.as_is is None else self.as_is.row.key
        compared = self._ranked_keys[:MAX_COMPARED_ROWS]
        if as_is is not None and as_is not in compared:
            compared[-1] = as_is
        table = self.find_outcome_table_of_rows(compared) if len(compared) > 1 else None
        if table is None:
            return None
        return compare_rows(
            compared,
            table,
            self.board.ranked_on,
            margin=self.margin,
            level=level_of_look(0) if self.staged_reading is None else self.staged_reading.level,
            not_compared=len(self._ranked_keys) - len(compared),
            current=as_is,
            per_slot=self.per_slot,
        )

    @property
    def _ranked_keys(self) -> list[RowKey]:
        return [row.key for row in self.distinct_board.rows if row.rank is not None]

    @property
    def baseline_warning(self) -> str | None:
        """A warning that no row has a lower loss than predicting the class frequencies; None where one has."""
        return (
            None if self._class_prior_comparison is None else class_prior_baseline_warning(self._class_prior_comparison)
        )

    @cached_property
    def _class_prior_comparison(self) -> ArmsNoBetterThanPrior | None:
        return find_arms_no_better_than_prior(self.board, self.class_prior)

    @property
    def analysis(self) -> Analysis:
        """Comparison, recommendation and check against the class prior together, as a study has them."""
        return Analysis(
            comparison=self.comparison,
            class_prior=self.class_prior,
            recommendation=self.recommendation,
            no_better_than_class_prior=self._class_prior_comparison,
        )

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row, with the column names of the exports of a study."""
        return build_ranked_records(self, self.comparison)

    def plot(self) -> Any:
        """The loss of each row with its 95 % confidence interval, as a `plotly.graph_objects.Figure`.

        Rings mark the recommended row and the row in use; in the shaded region rows are practically equal to the first
        one. Losses far above the others are marked at the end of the axis. Of more than 40 rows the best 40 are drawn.
        Intervals are over the examples of the split that ranks, with several networks over networks and examples.

        Raises:
            ModelError: No row has a value, or there are fewer than two examples.
        """
        return super().plot()

    def _make_chart(self) -> Chart:
        keys = self._ranked_keys[:MAX_COMPARED_ROWS]
        in_use = None if self.as_is is None else self.as_is.row.key
        if in_use is not None and in_use not in keys:
            keys.append(in_use)
        outcomes = self.find_outcome_table_of_rows(keys) if keys else None
        if outcomes is None:
            raise ModelError("a chart needs a row with a value and at least two examples")
        intervals = compare_sums_of_means_with_zero([outcomes.losses.astype(np.float64)])
        recommended = self.recommended.row.key
        rows = [
            RowLoss(
                format_chart_row_label(key, self.batch_sizes_by_row[key], self.batch_sizes),
                float(intervals.mean[position]),
                float(intervals.half[position]),
                is_independent=is_deterministic_configuration(key.configuration, per_slot=self.per_slot),
                is_recommended=key == recommended,
                is_in_use=key == in_use,
            )
            for position, key in enumerate(keys)
        ]
        return row_losses_chart(
            rows,
            split=str(self.board.ranked_on),
            scope="networks and examples" if self.networks else "examples",
            unit=self.score.unit,
            margin=self.comparison.margin if self.comparison else 0.0,
        )

    def _make_picture(self) -> Chart | None:
        """Differences to the best row, as the rows are paired; None for fewer than two compared rows."""
        if self.comparison is None or self.recommendation is None:
            return None
        return differences_to_best_chart(self.comparison, unit=self.score.unit, recommended=self.recommendation.key)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table with outcomes and population values to a file, atomically; `bln_search.load_ranked` reads it.

        Args:
            path: The file; without a suffix it gets `.safetensors`.

        Returns:
            The file.

        Raises:
            OutputFileError: The file cannot be written.
            StorageFullError: The disk is full.
        """
        return write_ranked_tables([{None: table} for table in self.per_network_tables], path)

    def to_external_results(self, name: str, **description: Unpack[ExternalResultsArguments]) -> ExternalResults:
        """The results without population values, to submit them to a service: `Client.submit_results`.

        Values of `metrics=` are not part of them.

        Args:
            name: Name of the study: small letters, digits, `-` and `_`, at most 64 characters.
            description: What the table does not contain: `title`; `data` and `model`, their names for display;
                `network_names`, one for each network; `method`, if several methods have these configurations, as `bn`
                and `brn`.

        Raises:
            ModelError: The results cannot be submitted; the message says why.
        """
        return build_external_results(self, name, **description)

    def __repr__(self) -> str:
        best = self.distinct_board.best_row
        loss = (
            "none ranked"
            if best is None
            else f"best {best.configuration} {best.metrics[self.board.ranked_on].loss.mean:.4f}"
        )
        return f"<{type(self).__name__}: {len(self)} rows, {loss}>"

    def _table_with_sentences(self) -> tuple[FittedTable, list[str]]:
        analysis = self.analysis
        table = leaderboard_table(
            self.distinct_board,
            compared=compared_rows_by_key(analysis),
            recommended=None if self.recommendation is None else self.recommendation.key,
            level=level_of_comparison(analysis),
            score=f"{self.score.text} (lower is better)",
        )
        lines = [
            *unranked_reason_lines(self.distinct_board),
            *self._staged_reading_lines(),
            *left_out_lines(self.left_out_by_split),
            *summarize_analysis(analysis).summary_lines,
        ]
        sizes = [self.batch_sizes_by_row[row.key] for row in self.distinct_board.rows]
        return mark_rows_of_all_sizes(insert_user_metric_columns(table, self), sizes, self.batch_sizes), lines

    def _staged_reading_lines(self) -> list[str]:
        """One line that says how much of the split was read; none for an evaluation that did not stop by itself."""
        reading, split = self.staged_reading, self.board.ranked_on
        if reading is None:
            return []
        if reading.examples < reading.of:
            return [
                f"Decided after {reading.examples:,} of {reading.of:,} {split} examples: figures are means over these "
                "examples."
            ]
        outcome = "Decided" if reading.is_decided else "Not decided"
        return [f"{outcome} after all {reading.of:,} {split} examples, which were read in stages."]
