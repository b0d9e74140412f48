"""The ranked table of a network, with what is needed to apply any of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np

from bln_search.api.inputs.metrics import MetricValues, row_values_by_split
from bln_search.api.ranked.chart import plot_rows
from bln_search.api.ranked.equal_rows import DistinctRows, distinct_rows
from bln_search.api.ranked.external_results import ExternalResultsArguments, build_external_results
from bln_search.api.ranked.metric_columns import sort_rows_by_metric, with_metric_columns
from bln_search.api.ranked.printing import drop_accuracy_columns, mark_rows_of_all_sizes, row_label
from bln_search.api.ranked.record_table import RecordTable
from bln_search.api.ranked.records import Record, ranked_records
from bln_search.api.ranked.row import LayerPopulationsByName, RankedConfiguration
from bln_search.api.ranked.row_populations import populations_of_row
from bln_search.api.ranked.writer import write_tables
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.records import EvaluationKey, Outcomes, RowKey
from bln_search.norms.row_batching.row_tensor import RowSpec
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MAX_COMPARED_ROWS, Comparison
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.paired import OutcomeTable, compare_rows
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior, compare_with_class_prior
from bln_search.ranking.selection.recommendation import Recommendation, recommend
from bln_search.reports.formatting import compared_rows_by_key
from bln_search.reports.sentences.baseline_check import baseline_warning
from bln_search.reports.sentences.result import summarize
from bln_search.reports.terminal.fitted_table import FittedTable
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reasons
from bln_search.specs.external_results import ExternalResults


@dataclass(frozen=True, repr=False)
class RankedConfigurations(RecordTable):
    """Rows from best to worst, rows without a rank last; printing it prints the table, a notebook shows it.

    Rows that share a letter in the table are not significantly different (`comparison`). A row that is independent of
    the mini-batch and has the same outcomes at all mini-batch sizes stands once, with all its sizes.

    Example:
        ranked[0]         # the first row
        ranked[:3]        # the first three rows
        ranked["TTTT"]    # the best row with this configuration
        ranked.at_batch_size(4).recommended  # what to use with mini-batches of 4
        ranked.to_frame() # the table as a pandas.DataFrame
        ranked.of_network(1)  # of several networks: the table of the second one

    Attributes:
        board: All evaluated rows with their ranks, at every mini-batch size.
        populations: The population values of each layer, by estimate; empty for several networks.
        outcomes: Per-example losses and correctness of every measured row; correctness is False everywhere if the
            score has none. Empty for several networks, each of which has its own.
        class_prior: What a classifier reaches that always predicts the class frequencies, on the split that ranks;
            None if targets are not classes.
        per_slot: Each slot of the mini-batch has its own population values.
        deployed: The row under which a network of `convert(method="same")` computes its original outputs; None for
            any other network.
        has_accuracy: Whether the score has correctness, so that rows have an accuracy. Without it, their accuracy is 0.
        metric_values: Values of `metrics=` of each measured row and split; with several networks, means over them.
        higher_is_better: For each metric, by name, whether a higher value is better.
        networks: The table of each of several networks, whose means over networks are ranked; empty for one network.
        fingerprints: Of the parameters of each of several networks; empty for one network.
        network: Position of this network among several; None for one network, and for the table of all.
    """

    board: Leaderboard
    populations: Mapping[str, LayerPopulationsByName]
    outcomes: Mapping[EvaluationKey, Outcomes]
    class_prior: ClassPriorBaseline | None = None
    per_slot: bool = False
    deployed: RowSpec | None = None
    has_accuracy: bool = True
    metric_values: MetricValues = field(default_factory=dict)
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    networks: tuple[RankedConfigurations, ...] = ()
    fingerprints: tuple[str, ...] = ()
    network: int | None = None

    @cached_property
    def _distinct(self) -> DistinctRows:
        outcomes = [table.outcomes for table in self.per_network_tables]
        return distinct_rows([self.board], outcomes, per_slot=self.per_slot)[0]

    @property
    def distinct_board(self) -> Leaderboard:
        """The rows as printed: those that are equal at all mini-batch sizes once."""
        return self._distinct.board

    @property
    def per_network_tables(self) -> tuple[RankedConfigurations, ...]:
        """The table of each network; this table itself for one network."""
        return self.networks or (self,)

    def of_network(self, index: int) -> RankedConfigurations:
        """The table of one of several networks, by its position in the evaluated list.

        Raises:
            IndexError: There is no such network.
        """
        tables = self.per_network_tables
        if not -len(tables) <= index < len(tables):
            raise IndexError(f"the table has {len(tables)} networks, numbered from 0: there is no network {index}")
        return tables[index]

    @property
    def baseline_warning(self) -> str | None:
        """A warning that no row has a lower loss than predicting the class frequencies; None where one has."""
        return None if self._class_prior_comparison is None else baseline_warning(self._class_prior_comparison)

    @cached_property
    def _class_prior_comparison(self) -> ArmsNoBetterThanPrior | None:
        return compare_with_class_prior(self.board, self.class_prior)

    @property
    def best(self) -> RankedConfiguration:
        """The first row. Raises ModelError if no row has a value."""
        if self.board.best is None:
            reason = next((row.reason for row in self.board.rows if row.reason), "there is no row")
            raise ModelError(f"no configuration could be measured: {reason}")
        return self[0]

    @property
    def best_independent(self) -> RankedConfiguration | None:
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

    def at_batch_size(self, batch_size: int) -> RankedConfigurations:
        """The table of one inference mini-batch size, compared and recommended among its own rows.

        Raises:
            ValueError: No row was evaluated at this size.
        """
        sizes = sorted({row.batch_size for row in self.board.rows})
        if batch_size not in sizes:
            raise ValueError(
                f"no row was evaluated with mini-batches of {batch_size!r}: there are {', '.join(map(str, sizes))}; "
                "evaluate_configurations takes batch_sizes="
            )
        networks = tuple(table.at_batch_size(batch_size) for table in self.networks)
        return replace(self, board=self.board.at_batch_size(batch_size), networks=networks)

    @property
    def recommended(self) -> RankedConfiguration:
        """The row to use: among rows near the lowest mean loss, the cheapest that is independent of the mini-batch.

        It depends on the mini-batch if all rows near the lowest mean loss do; `best_independent` never does. The row of
        the network before conversion (`as_is`) is recommended unless another is significantly better.
        Raises ModelError if no row has a value.
        """
        recommendation = self.recommendation
        if recommendation is None:
            return self.as_is or self.best
        return next(candidate for candidate in self if candidate.row.key == recommendation.key)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The reasons for `recommended`; None if fewer than two rows could be compared."""
        if self.comparison is None:
            return None
        as_is = None if self.as_is is None else self.as_is.row.key
        return recommend(self.comparison, {}, per_slot=self.per_slot, current=as_is)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The best rows, compared over the examples of the split that ranks; None for fewer than two rows or examples.

        With one network it generalizes to other examples, with several also to other networks that were trained alike.
        """
        ranked = [row.key for row in self.distinct_board.rows if row.rank is not None]
        if len(ranked) < 2:
            return None
        split = self.board.ranked_on
        compared_keys = self._keys_to_compare(ranked)
        table = self.outcome_table(compared_keys)
        if table is None:
            return None
        return compare_rows(compared_keys, table, split, not_compared=len(ranked) - len(compared_keys))

    def outcome_table(self, keys: Sequence[RowKey]) -> OutcomeTable | None:
        """Outcomes of rows on the split that ranks, (networks, rows, examples); None for fewer than two examples."""
        split = self.board.ranked_on
        evaluations = [EvaluationKey(key.configuration, key.estimate, key.batch_size, split) for key in keys]
        outcomes = [[table.outcomes[key] for key in evaluations] for table in self.per_network_tables]
        if len(outcomes[0][0].losses) < 2:
            return None
        losses = np.stack([np.stack([outcome.losses for outcome in rows]) for rows in outcomes]).astype(np.float32)
        return OutcomeTable(losses, np.stack([np.stack([outcome.correct for outcome in rows]) for rows in outcomes]))

    def _keys_to_compare(self, ranked: list[RowKey]) -> list[RowKey]:
        """The first rows of the table, and the row of the network before conversion."""
        first = ranked[:MAX_COMPARED_ROWS]
        as_is = None if self.as_is is None else self.as_is.row.key
        return first if as_is is None or as_is in first else [*first[:-1], as_is]

    def by_metric(self, name: str) -> list[RankedConfiguration]:
        """The rows from the best to the worst value of a metric on the split that ranks.

        Equal values keep the order of the loss; rows without a number are last. Ranks, groups and the recommendation
        stay those of the loss. Raises KeyError if there is no metric of this name.
        """
        return sort_rows_by_metric(self, name, self.higher_is_better, self.board.ranked_on)

    @overload
    def __getitem__(self, index: int | str | InferenceConfiguration) -> RankedConfiguration: ...

    @overload
    def __getitem__(self, index: slice) -> list[RankedConfiguration]: ...

    def __getitem__(
        self, index: int | slice | str | InferenceConfiguration
    ) -> RankedConfiguration | list[RankedConfiguration]:
        """Rows by position; the best row of a configuration by its code.

        Raises:
            IndexError: There is no row at this position.
            KeyError: No row has this configuration.
        """
        if isinstance(index, slice):
            return [self._row(position) for position in range(len(self))[index]]
        return self._row(self._position(str(index)) if isinstance(index, str | InferenceConfiguration) else index)

    def _position(self, code: str) -> int:
        """The position of the first row with this configuration. Raises KeyError if there is none."""
        codes = [str(row.configuration) for row in self.distinct_board.rows]
        if code not in codes:
            raise KeyError(f"no row has the configuration {code}: there are {', '.join(sorted(set(codes)))}")
        return codes.index(code)

    def _row(self, position: int) -> RankedConfiguration:
        return self.configured_row(self.distinct_board.rows[position])

    def configured_row(self, row: LeaderboardRow) -> RankedConfiguration:
        """A row with the population values that it reads."""
        populations, without_estimate = populations_of_row(row, self.populations)
        key = EvaluationKey(row.configuration, row.estimate, row.batch_size, self.board.ranked_on)
        return RankedConfiguration(
            row=row,
            populations=populations,
            without_estimate=without_estimate,
            per_slot=self.per_slot,
            metrics=row_values_by_split(self.metric_values, key, row.metrics),
            batch_sizes=self._distinct.batch_sizes.get(row.key, (row.batch_size,)),
            networks=tuple(table.configured_row(row) for table in self.networks),
            fingerprints=self.fingerprints,
            network=self.network,
        )

    def __len__(self) -> int:
        return len(self.distinct_board.rows)

    def __iter__(self) -> Iterator[RankedConfiguration]:
        return (self._row(position) for position in range(len(self)))

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row, with the column names of the exports of a study."""
        splits = {split for row in self.board.rows for split in row.metrics}
        return ranked_records(
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
        outcomes = self.outcome_table(keys) if keys else None
        if outcomes is None:
            raise ModelError("a chart needs a row with a value and at least two examples")
        sizes = {row.batch_size for row in self.board.rows}
        return plot_rows(
            {key: row_label(key, self._distinct.batch_sizes[key], sizes) for key in keys},
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
            OutputError: The file cannot be written.
            StorageFullError: The disk is full.
        """
        return write_tables([{None: table} for table in self.per_network_tables], path)

    def external_results(self, name: str, **description: Unpack[ExternalResultsArguments]) -> ExternalResults:
        """The results without population values, to submit them to a service: `Client.submit_results`.

        Values of `metrics=` are not part of them.

        Args:
            name: Name of the study: small letters, digits, `-` and `_`, at most 64 characters.
            description: What the table does not contain: `title`; `data` and `model`, their names for display;
                `network_names`, one for each network; `method`, if several methods have these configurations, as `bn`
                and `brn`.

        Raises:
            ModelError: The results cannot be submitted: the score has no correctness, or an argument is invalid.
        """
        return build_external_results(self, name, **description)

    def __repr__(self) -> str:
        best = self.distinct_board.best
        loss = (
            "none ranked"
            if best is None
            else f"best {best.configuration} {best.metrics[self.board.ranked_on].loss.mean:.4f}"
        )
        return f"<{type(self).__name__}: {len(self)} rows, {loss}>"

    def _table_with_sentences(self) -> tuple[FittedTable, list[str]]:
        analysis = Analysis(
            comparison=self.comparison,
            recommendation=self.recommendation,
            no_better_than_class_prior=self._class_prior_comparison,
        )
        recommended = None if self.recommendation is None else self.recommendation.key
        table = leaderboard_table(self.distinct_board, compared=compared_rows_by_key(analysis), recommended=recommended)
        lines = [*unranked_reasons(self.distinct_board), *summarize(analysis, with_accuracy=self.has_accuracy).lines]
        table = with_metric_columns(table, list(self), self.higher_is_better, {key.split for key in self.metric_values})
        sizes = [self._distinct.batch_sizes[row.key] for row in self.distinct_board.rows]
        table = mark_rows_of_all_sizes(table, sizes, {row.batch_size for row in self.board.rows})
        return table if self.has_accuracy else drop_accuracy_columns(table), lines
