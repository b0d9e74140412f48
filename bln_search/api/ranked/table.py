"""The ranked table of a network, with what is needed to apply any of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from bln_search.api.ranked.chart import plot_row_losses
from bln_search.api.ranked.compared_configurations import ComparedRankedRows
from bln_search.api.ranked.external_results import ExternalResultsArguments, build_external_results
from bln_search.api.ranked.metric_columns import insert_user_metric_columns
from bln_search.api.ranked.printing import (
    format_chart_row_label,
    left_out_lines,
    mark_rows_of_all_sizes,
    staged_reading_lines,
)
from bln_search.api.ranked.record_table import RecordTable
from bln_search.api.ranked.records import Record, build_ranked_records
from bln_search.api.ranked.writer import write_ranked_tables
from bln_search.core.errors import ModelError
from bln_search.ranking.comparison import MAX_COMPARED_ROWS
from bln_search.reports.formatting import compared_rows_by_key
from bln_search.reports.sentences.result import summarize_analysis
from bln_search.reports.terminal.fitted_table import FittedTable
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reason_lines
from bln_search.specs.external_results import ExternalResults


@dataclass(frozen=True, repr=False)
class RankedConfigurations(ComparedRankedRows, RecordTable):
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

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row, with the column names of the exports of a study."""
        splits = {split for row in self.board.rows for split in row.metrics}
        return build_ranked_records(
            self, self.comparison, splits=splits, accuracy=self.has_accuracy, metric_names=self.higher_is_better
        )

    def plot(self) -> Any:
        """The loss of each row with its 95 % confidence interval, as a `plotly.graph_objects.Figure`.

        Rows beyond the 40 best are not drawn. Intervals are over the examples of the split that ranks, with several
        networks over networks and examples.

        Raises:
            MissingPackageError: plotly is not installed.
            ModelError: No row has a value, or there are fewer than two examples.
        """
        keys = [row.key for row in self.distinct_board.rows if row.rank is not None][:MAX_COMPARED_ROWS]
        outcomes = self.find_outcome_table_of_rows(keys) if keys else None
        if outcomes is None:
            raise ModelError("a chart needs a row with a value and at least two examples")
        return plot_row_losses(
            {key: format_chart_row_label(key, self.batch_sizes_by_row[key], self.batch_sizes) for key in keys},
            outcomes.losses,
            recommended=self.recommended.row.key,
            per_slot=self.per_slot,
            split=self.board.ranked_on,
            scope="networks and examples" if self.networks else "examples",
        )

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
        recommended = None if self.recommendation is None else self.recommendation.key
        table = leaderboard_table(
            self.distinct_board,
            compared=compared_rows_by_key(analysis),
            recommended=recommended,
            score=f"{self.score.text} (lower is better)",
        )
        lines = [
            *unranked_reason_lines(self.distinct_board),
            *staged_reading_lines(self.staged_reading, self.board.ranked_on),
            *left_out_lines(self.left_out_by_split),
            *summarize_analysis(analysis).summary_lines,
        ]
        table = insert_user_metric_columns(
            table, list(self), self.higher_is_better, {key.split for key in self.metric_values}
        )
        sizes = [self.batch_sizes_by_row[row.key] for row in self.distinct_board.rows]
        table = mark_rows_of_all_sizes(table, sizes, self.batch_sizes)
        return table, lines
