"""The rows of a ranked table with their outcomes and population values, and how rows are looked up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from bln_search.api.networks import NetworkFingerprint
from bln_search.api.ranked.equal_rows import DistinctRowsOfBoard, SizesByKey, merge_rows_equal_at_all_sizes
from bln_search.api.ranked.row import (
    LayerPopulationsByName,
    RankedConfiguration,
    row_populations_and_layers_without_one,
)
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.core.records import EvaluationKey, RowKey
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.looks import StagedReading
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.table import draw_compared_examples


@dataclass(frozen=True, repr=False)
class RankedRows:
    """Rows from best to worst, rows without a rank last; a row is looked up by its position or its configuration.

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
        has_accuracy: Whether the score has correctness, so that rows have an accuracy. Without it, it is None.
        score: What the loss is, with its unit.
        metric_values: Values of `metrics=` of each measured row and split; with several networks, means over them.
        higher_is_better: For each metric, by name, whether a higher value is better.
        networks: The table of each of several networks, whose means over networks are ranked; empty for one network.
        fingerprints: Of the parameters of each of several networks; empty for one network.
        network: Position of this network among several; None for one network, and for the table of all.
        measured_with: Fingerprint of the network with which the population values were measured; None for several
            networks, and for files of earlier versions.
        target_order: Fingerprints of the targets of the split that ranks, in the order of the outcomes; None for one
            condition, and for files of earlier versions.
        examples_by_loader: The number of examples of each loader, by the name of its argument.
        margin: Difference of mean losses up to which rows are practically equal; None for the default.
        staged_reading: How many examples were read with `stop="decided"`; None without it.
    """

    board: Leaderboard
    populations: Mapping[str, LayerPopulationsByName]
    outcomes: Mapping[EvaluationKey, ExampleOutcomes]
    class_prior: ClassPriorBaseline | None = None
    per_slot: bool = False
    deployed: InferenceRow | None = None
    has_accuracy: bool = True
    score: LossDescription = CROSS_ENTROPY
    metric_values: Mapping[EvaluationKey, Mapping[str, float]] = field(default_factory=dict)
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    networks: tuple[Self, ...] = ()
    fingerprints: tuple[str, ...] = ()
    network: int | None = None
    measured_with: NetworkFingerprint | None = None
    target_order: NDArray[np.uint64] | None = None
    examples_by_loader: Mapping[str, int] = field(default_factory=dict)
    margin: float | None = None
    staged_reading: StagedReading | None = None

    @cached_property
    def _distinct_rows(self) -> DistinctRowsOfBoard:
        outcomes = [table.outcomes for table in self.per_network_tables]
        return merge_rows_equal_at_all_sizes([self.board], outcomes, per_slot=self.per_slot)[0]

    @property
    def distinct_board(self) -> Leaderboard:
        """The rows as printed: those that are equal at all mini-batch sizes once."""
        return self._distinct_rows.board

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The inference mini-batch sizes, in increasing order."""
        return tuple(sorted({row.batch_size for row in self.board.rows}))

    @property
    def batch_sizes_by_row(self) -> SizesByKey:
        """The mini-batch sizes for which each row of `table` stands."""
        return self._distinct_rows.batch_sizes

    @property
    def per_network_tables(self) -> tuple[Self, ...]:
        """The table of each network; this table itself for one network."""
        return self.networks or (self,)

    def of_network(self, index: int) -> Self:
        """The table of one of several networks, by its position in the evaluated list.

        Raises:
            IndexError: There is no such network.
        """
        tables = self.per_network_tables
        if not -len(tables) <= index < len(tables):
            raise IndexError(f"the table has {len(tables)} networks, numbered from 0: there is no network {index}")
        return tables[index]

    def at_batch_size(self, batch_size: int) -> Self:
        """The table of one inference mini-batch size, compared and recommended among its own rows.

        Raises:
            ValueError: No row was evaluated at this size.
        """
        if batch_size not in self.batch_sizes:
            raise ValueError(
                f"no row was evaluated with mini-batches of {batch_size!r}: there are "
                f"{', '.join(map(str, self.batch_sizes))}; evaluate_configurations takes batch_sizes="
            )
        if batch_size not in self._tables_by_batch_size:
            networks = tuple(table.at_batch_size(batch_size) for table in self.networks)
            board = self.board.restrict_to_batch_size(batch_size)
            self._tables_by_batch_size[batch_size] = replace(self, board=board, networks=networks)
        return self._tables_by_batch_size[batch_size]

    @cached_property
    def _tables_by_batch_size(self) -> dict[int, Self]:
        return {}

    @property
    def left_out_by_split(self) -> dict[Split, int]:
        """The number of examples without a counted target, which are left out of losses and accuracies."""
        counts: dict[Split, int] = {}
        for table in self.per_network_tables:
            for key, outcomes in table.outcomes.items():  # a row that left the evaluation has fewer examples
                counts[key.split] = max(outcomes.left_out, counts.get(key.split, 0))
        return counts

    def find_outcome_table_of_rows(self, keys: Sequence[RowKey]) -> OutcomeTable | None:
        """Outcomes of rows on the split that ranks, (networks, rows, examples); None for fewer than two examples."""
        split = self.board.ranked_on
        evaluations = [EvaluationKey(key.configuration, key.estimate, key.batch_size, split) for key in keys]
        outcomes = [[table.outcomes[key].linearized() for key in evaluations] for table in self.per_network_tables]
        examples = len(outcomes[0][0].losses)
        if examples < 2:
            return None
        sample = draw_compared_examples(examples)
        part = slice(None) if sample is None else sample
        losses = np.stack([np.stack([outcome.losses[part] for outcome in rows]) for rows in outcomes])
        correct = np.stack([np.stack([outcome.correct[part] for outcome in rows]) for rows in outcomes])
        sampled_from = None if sample is None else examples
        targets = self._find_targets_of_counted_examples(evaluations[0])
        targets = None if targets is None else targets[part]
        return OutcomeTable(losses.astype(np.float32), correct, self.has_accuracy, sampled_from, targets)

    def _find_targets_of_counted_examples(self, key: EvaluationKey) -> NDArray[np.uint64] | None:
        """Fingerprints of the targets of the examples that count in an evaluation; None where they are unknown."""
        weights = self.per_network_tables[0].outcomes[key].weights
        if self.target_order is None or weights is None:
            return self.target_order
        return self.target_order[weights > 0]

    def by_metric(self, name: str) -> list[RankedConfiguration]:
        """The rows from the best to the worst value of a metric on the split that ranks.

        Equal values keep the order of the loss; rows without a number are last. Ranks, groups and the recommendation
        stay those of the loss. Raises KeyError if there is no metric of this name.
        """
        if name not in self.higher_is_better:
            names = ", ".join(self.higher_is_better) or "none: evaluate_configurations takes metrics="
            raise KeyError(f"there is no metric {name!r}: there are {names}")
        sign = -1 if self.higher_is_better[name] else 1

        def sort_key(row: RankedConfiguration) -> tuple[bool, float]:
            value = row.metrics.get(self.board.ranked_on, {}).get(name, math.nan)
            return math.isnan(value), 0.0 if math.isnan(value) else sign * value

        return sorted(self, key=sort_key)

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
            return [self._get_row_at(position) for position in range(len(self))[index]]
        return self._get_row_at(
            self._get_first_position_of_code(str(index)) if isinstance(index, str | InferenceConfiguration) else index
        )

    def _get_first_position_of_code(self, code: str) -> int:
        """The position of the first row with this configuration. Raises KeyError if there is none."""
        codes = [str(row.configuration) for row in self.distinct_board.rows]
        if code not in codes:
            raise KeyError(f"no row has the configuration {code}: there are {', '.join(sorted(set(codes)))}")
        return codes.index(code)

    def _get_row_at(self, position: int) -> RankedConfiguration:
        return self.make_ranked_configuration(self.distinct_board.rows[position])

    def make_ranked_configuration(self, row: LeaderboardRow) -> RankedConfiguration:
        """A row with the population values that it reads."""
        populations, without_estimate = row_populations_and_layers_without_one(row, self.populations)
        keys = {split: EvaluationKey(row.configuration, row.estimate, row.batch_size, split) for split in row.metrics}
        return RankedConfiguration(
            row=row,
            populations=populations,
            without_estimate=without_estimate,
            per_slot=self.per_slot,
            metrics={split: self.metric_values[key] for split, key in keys.items() if key in self.metric_values},
            batch_sizes=self._distinct_rows.batch_sizes.get(row.key, (row.batch_size,)),
            networks=tuple(table.make_ranked_configuration(row) for table in self.networks),
            fingerprints=self.fingerprints,
            network=self.network,
            measured_with=self.measured_with,
        )

    def __len__(self) -> int:
        return len(self.distinct_board.rows)

    def __iter__(self) -> Iterator[RankedConfiguration]:
        return (self._get_row_at(position) for position in range(len(self)))
