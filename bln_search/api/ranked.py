"""The ranked table of a network, with what is needed to apply any of its rows."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.console import Console

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.records import EvaluationKey, Outcomes, RowKey
from bln_search.norms.row_tensor import RowSpec
from bln_search.norms.statistics import LayerPopulation, layer_configuration, select_population
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MAX_COMPARED_ROWS, Comparison
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.paired import OutcomeTable, compare
from bln_search.ranking.selection.baseline_check import NoBetterThanClassPrior, compare_with_class_prior
from bln_search.ranking.selection.recommendation import Recommendation, recommend
from bln_search.reports.formatting import compared_rows
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.sentences.baseline_check import baseline_warning
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reasons

LayerPopulationsByName = Mapping[str, LayerPopulation]


@dataclass(frozen=True)
class RankedConfiguration:
    """A row of the table and the population values it reads, by the name of the layer.

    without_estimate: layers that have no such population, and so take the mini-batch.
    """

    row: LeaderboardRow
    populations: LayerPopulationsByName
    without_estimate: frozenset[str] = frozenset()

    @property
    def configuration(self) -> InferenceConfiguration:
        """Where each statistic comes from."""
        return self.row.configuration

    def of_layer(self, name: str) -> InferenceConfiguration:
        """What the layer of that name does."""
        return self.configuration.without_population if name in self.without_estimate else self.configuration

    def __str__(self) -> str:
        return f"{self.configuration}" + (f" ({self.row.estimate})" if self.row.estimate else "")


@dataclass(frozen=True)
class RankedConfigurations:
    """Rows from best to worst, those without a rank last. Printing it prints the table.

    Rows that share a letter in the printed table do not differ significantly (`comparison`).

    Attributes:
        board: The ranked rows.
        populations: Population values of each layer, by estimate and name of the layer.
        outcomes: Per-example losses and correctness of every measured row.
        class_prior: Loss and accuracy of predicting the class frequencies on the split that decides the ranking; None
            where targets are not classes.
        per_slot: Whether there is one population value for each slot of the mini-batch.
        deployed: The row under which a network that `convert(method="same")` made answers as before; None for any other
            network.
    """

    board: Leaderboard
    populations: Mapping[PopulationEstimate, LayerPopulationsByName]
    outcomes: Mapping[EvaluationKey, Outcomes]
    class_prior: ClassPriorBaseline | None = None
    per_slot: bool = False
    deployed: RowSpec | None = None

    @property
    def baseline_warning(self) -> str | None:
        """A warning that no row has a lower loss than predicting the class frequencies; None where one has."""
        return None if self._no_better_than_class_prior is None else baseline_warning(self._no_better_than_class_prior)

    @cached_property
    def _no_better_than_class_prior(self) -> NoBetterThanClassPrior | None:
        return compare_with_class_prior(self.board, self.class_prior)

    @property
    def best(self) -> RankedConfiguration:
        """The first row. Raises ModelError where nothing was measured."""
        if self.board.best is None:
            reason = next((row.reason for row in self.board.rows if row.reason), "there is no row")
            raise ModelError(f"no configuration could be measured: {reason}")
        return self[0]

    @property
    def as_is(self) -> RankedConfiguration | None:
        """The row of the network as it was converted by `same`; None where it is another, or has no rank.

        Of several mini-batch sizes the one at which it is best.
        """
        if self.deployed is None:
            return None
        key = self.deployed.configuration, self.deployed.estimate
        rows = (one for one in self if one.row.rank is not None)
        return next((one for one in rows if (one.configuration, one.row.estimate) == key), None)

    @property
    def recommended(self) -> RankedConfiguration:
        """The row to use: of those near the lowest mean loss the cheapest whose answers do not depend on others.

        A network as it is stays so, unless that row is significantly better. Raises ModelError where nothing was
        measured.
        """
        recommendation = self.recommendation
        if recommendation is None:
            return self.as_is or self.best
        return next(one for one in self if one.row.key == recommendation.key)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """Why that row; None where fewer than two rows could be compared."""
        if self.comparison is None:
            return None
        as_is = None if self.as_is is None else self.as_is.row.key
        return recommend(self.comparison, {}, per_slot=self.per_slot, current=as_is)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The best ranked rows compared over the examples of the split that decides; None for fewer than two of either.

        It speaks of this network and other examples: one seed tells nothing of another.
        """
        ranked = [row.key for row in self.board.rows if row.rank is not None]
        if len(ranked) < 2:
            return None
        split = self.board.ranked_on
        compared = self._compared(ranked)
        kept = [
            self.outcomes[EvaluationKey(row.configuration, row.estimate, row.batch_size, split)] for row in compared
        ]
        if len(kept[0].losses) < 2:
            return None
        losses = np.stack([one.losses for one in kept])[None].astype(np.float32)
        table = OutcomeTable(losses, np.stack([one.correct for one in kept])[None])
        return compare(compared, table, split, not_compared=len(ranked) - len(kept))

    def _compared(self, ranked: list[RowKey]) -> list[RowKey]:
        """The first rows of the table, and that of the network as it is."""
        first = ranked[:MAX_COMPARED_ROWS]
        as_is = None if self.as_is is None else self.as_is.row.key
        return first if as_is is None or as_is in first else [*first[:-1], as_is]

    def __getitem__(self, place: int) -> RankedConfiguration:
        row = self.board.rows[place]
        names = dict.fromkeys(name for layers in self.populations.values() for name in layers)
        read: dict[str, LayerPopulation] = {}
        without = set()
        for name in names:
            known = {estimate: layers[name] for estimate, layers in self.populations.items() if name in layers}
            configuration = layer_configuration(row.configuration, row.estimate, known)
            population = select_population(configuration, row.estimate, known)
            if population is not None:
                read[name] = population
            if configuration != row.configuration:
                without.add(name)
        return RankedConfiguration(row, read, frozenset(without))

    def __len__(self) -> int:
        return len(self.board.rows)

    def __iter__(self) -> Iterator[RankedConfiguration]:
        return (self[place] for place in range(len(self)))

    def __str__(self) -> str:
        out = io.StringIO()
        analysis = Analysis(
            comparison=self.comparison,
            recommendation=self.recommendation,
            no_better_than_class_prior=self._no_better_than_class_prior,
        )
        table = leaderboard_table(self.board, compared=compared_rows(analysis))
        lines = [*unranked_reasons(self.board), *analysis_sentences(analysis)]
        Console(file=out, width=160).print(table, *lines, sep="\n", markup=False)
        return out.getvalue()
