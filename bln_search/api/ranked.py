"""The ranked table of a network, with what is needed to apply any of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from bln_search.api.metric_columns import rows_by_metric, with_metric_columns
from bln_search.api.metrics import MetricValues, split_values
from bln_search.api.printing import table_html, table_text, without_accuracy
from bln_search.api.ranked_row import LayerPopulationsByName, RankedConfiguration
from bln_search.api.records import Record, ranked_records, records_csv, records_frame, records_json
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.records import EvaluationKey, Outcomes, RowKey
from bln_search.norms.row_batching.row_tensor import RowSpec
from bln_search.norms.statistics import LayerPopulation, layer_configuration, select_population
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MAX_COMPARED_ROWS, Comparison
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.paired import OutcomeTable, compare
from bln_search.ranking.selection.baseline_check import NoBetterThanClassPrior, compare_with_class_prior
from bln_search.ranking.selection.recommendation import Recommendation, recommend
from bln_search.reports.formatting import compared_rows
from bln_search.reports.sentences.baseline_check import baseline_warning
from bln_search.reports.sentences.result import summarize
from bln_search.reports.terminal.fitted_table import FittedTable
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reasons


@dataclass(frozen=True, repr=False)
class RankedConfigurations:
    """Rows from best to worst, rows without a rank last; printing it prints the table, a notebook shows it.

    Rows that share a letter in the table are not significantly different (`comparison`).

    Example:
        ranked[0]         # the first row
        ranked[:3]        # the first three rows
        ranked["TTTT"]    # the best row with this configuration
        ranked.at_batch_size(4).recommended  # what to use with mini-batches of 4
        ranked.to_frame() # the table as a pandas.DataFrame

    Attributes:
        board: The rows with their ranks.
        populations: The population values of each layer, by estimate.
        outcomes: Per-example losses and correctness of every measured row; correctness is False everywhere if the
            score has none.
        class_prior: What a classifier reaches that always predicts the class frequencies, on the split that ranks;
            None if targets are not classes.
        per_slot: Each slot of the mini-batch has its own population values.
        deployed: The row under which a network of `convert(method="same")` computes its original outputs; None for
            any other network.
        has_accuracy: Whether the score has correctness, so that rows have an accuracy. Without it, their accuracy is 0.
        metric_values: Values of `metrics=` of each measured row and split.
        higher_is_better: For each metric, by name, whether a higher value is better.
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

    @property
    def baseline_warning(self) -> str | None:
        """A warning that no row has a lower loss than predicting the class frequencies; None where one has."""
        return None if self._no_better_than_class_prior is None else baseline_warning(self._no_better_than_class_prior)

    @cached_property
    def _no_better_than_class_prior(self) -> NoBetterThanClassPrior | None:
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
        return replace(self, board=self.board.at_batch_size(batch_size))

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

        The comparison generalizes to other examples, not to other seeds, because there is one network.
        """
        ranked = [row.key for row in self.board.rows if row.rank is not None]
        if len(ranked) < 2:
            return None
        split = self.board.ranked_on
        compared_keys = self._keys_to_compare(ranked)
        outcomes = [
            self.outcomes[EvaluationKey(row.configuration, row.estimate, row.batch_size, split)]
            for row in compared_keys
        ]
        if len(outcomes[0].losses) < 2:
            return None
        losses = np.stack([outcome.losses for outcome in outcomes])[None].astype(np.float32)
        table = OutcomeTable(losses, np.stack([outcome.correct for outcome in outcomes])[None])
        return compare(compared_keys, table, split, not_compared=len(ranked) - len(outcomes))

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
        return rows_by_metric(self, name, self.higher_is_better, self.board.ranked_on)

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
        codes = [str(row.configuration) for row in self.board.rows]
        if code not in codes:
            raise KeyError(f"no row has the configuration {code}: there are {', '.join(sorted(set(codes)))}")
        return codes.index(code)

    def _row(self, position: int) -> RankedConfiguration:
        row = self.board.rows[position]
        names = dict.fromkeys(name for layers in self.populations.values() for name in layers)
        read: dict[str, LayerPopulation] = {}
        without_estimate = set()
        for name in names:
            by_estimate = {estimate: layers[name] for estimate, layers in self.populations.items() if name in layers}
            configuration = layer_configuration(row.configuration, row.estimate, by_estimate)
            population = select_population(configuration, row.estimate, by_estimate)
            if population is not None:
                read[name] = population
            if configuration != row.configuration:
                without_estimate.add(name)
        key = EvaluationKey(row.configuration, row.estimate, row.batch_size, self.board.ranked_on)
        metrics = split_values(self.metric_values, key, row.metrics)
        return RankedConfiguration(row, read, frozenset(without_estimate), self.per_slot, metrics)

    def __len__(self) -> int:
        return len(self.board.rows)

    def __iter__(self) -> Iterator[RankedConfiguration]:
        return (self._row(position) for position in range(len(self)))

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row, with the column names of the exports of a study."""
        splits = {split for row in self.board.rows for split in row.metrics}
        return ranked_records(
            self, self.comparison, splits=splits, accuracy=self.has_accuracy, metric_names=self.higher_is_better
        )

    def to_csv(self) -> str:
        """The table as CSV."""
        return records_csv(self.to_records())

    def to_json(self) -> str:
        """The table as a JSON array of objects."""
        return records_json(self.to_records())

    def to_frame(self) -> Any:
        """The table as a `pandas.DataFrame`. Raises MissingPackageError if pandas is not installed."""
        return records_frame(self.to_records())

    def __repr__(self) -> str:
        best = self.board.best
        loss = (
            "none ranked"
            if best is None
            else f"best {best.configuration} {best.metrics[self.board.ranked_on].loss.mean:.4f}"
        )
        return f"<{type(self).__name__}: {len(self)} rows, {loss}>"

    def __str__(self) -> str:
        return table_text(*self._table_with_sentences())

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        return table_html(*self._table_with_sentences())

    def _table_with_sentences(self) -> tuple[FittedTable, list[str]]:
        analysis = Analysis(
            comparison=self.comparison,
            recommendation=self.recommendation,
            no_better_than_class_prior=self._no_better_than_class_prior,
        )
        recommended = None if self.recommendation is None else self.recommendation.key
        table = leaderboard_table(self.board, compared=compared_rows(analysis), recommended=recommended)
        table = with_metric_columns(table, list(self), self.higher_is_better, {key.split for key in self.metric_values})
        lines = [*unranked_reasons(self.board), *summarize(analysis, with_accuracy=self.has_accuracy).lines]
        return table if self.has_accuracy else without_accuracy(table), lines
