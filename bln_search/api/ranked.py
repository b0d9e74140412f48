"""The ranked table of a network, with what is needed to apply any of its rows."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.console import Console

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.guessing import Guess
from bln_search.core.records import EvaluationKey, Outcomes
from bln_search.core.words import PopulationEstimate
from bln_search.norms.statistics import LayerPopulation, chosen_population
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MOST_ROWS, Comparison
from bln_search.ranking.doubt import Doubt, doubt_of
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.paired import OutcomeTable, compare
from bln_search.ranking.recommendation import Recommendation, recommend
from bln_search.reports.comparison import analysis_lines, groups_of
from bln_search.reports.table import leaderboard_table, reasons

LayerPopulationsByName = Mapping[str, LayerPopulation]


@dataclass(frozen=True)
class RankedConfiguration:
    """A row of the table and the population values it reads, by the name of the layer."""

    row: LeaderboardRow
    populations: LayerPopulationsByName

    @property
    def configuration(self) -> InferenceConfiguration:
        """Where each statistic comes from."""
        return self.row.configuration

    def __str__(self) -> str:
        return f"{self.configuration}" + (f" ({self.row.estimate})" if self.row.estimate else "")


@dataclass(frozen=True)
class RankedConfigurations:
    """Rows from best to worst, those without a rank last. Printing it prints the table.

    outcomes: per-example losses and correctness of every measured row. Rows that share a letter in the printed table
    are not told apart (`comparison`). guess: what guessing reaches on the split that decides; None where targets are
    not classes. per_slot: population values are one for each place in the mini-batch.
    """

    board: Leaderboard
    populations: Mapping[PopulationEstimate, LayerPopulationsByName]
    outcomes: Mapping[EvaluationKey, Outcomes]
    guess: Guess | None = None
    per_slot: bool = False

    @property
    def doubt(self) -> str | None:
        """Why no row is worth using: the loss of each is that of guessing, or more. None where one does better."""
        return None if self._doubt is None else self._doubt.words

    @cached_property
    def _doubt(self) -> Doubt | None:
        return doubt_of(self.board, self.guess)

    @property
    def best(self) -> RankedConfiguration:
        """The first row. Raises ModelError where nothing was measured."""
        if self.board.best is None:
            reason = next((row.reason for row in self.board.rows if row.reason), "there is no row")
            raise ModelError(f"no configuration could be measured: {reason}")
        return self[0]

    @property
    def recommended(self) -> RankedConfiguration:
        """The row to use: of those near the lowest mean loss the cheapest whose answers do not depend on others.

        Raises ModelError where nothing was measured.
        """
        recommendation = self.recommendation
        if recommendation is None:
            return self.best
        return next(one for one in self if one.row.candidate == recommendation.candidate)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """Why that row; None where fewer than two rows could be compared."""
        return None if self.comparison is None else recommend(self.comparison, {}, per_slot=self.per_slot)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The best ranked rows compared over the examples of the split that decides; None for fewer than two of either.

        It speaks of this network and other examples: one seed tells nothing of another.
        """
        ranked = [row.candidate for row in self.board.rows if row.rank is not None]
        if len(ranked) < 2:
            return None
        split = self.board.ranked_on
        kept = [
            self.outcomes[EvaluationKey(configuration, estimate, batch_size, split)]
            for _, _, configuration, estimate, batch_size in ranked[:MOST_ROWS]
        ]
        if len(kept[0].losses) < 2:
            return None
        losses = np.stack([one.losses for one in kept])[None].astype(np.float32)
        table = OutcomeTable(losses, np.stack([one.correct for one in kept])[None])
        return compare(ranked[:MOST_ROWS], table, split, left_out=len(ranked) - len(kept))

    def __getitem__(self, place: int) -> RankedConfiguration:
        row = self.board.rows[place]
        return RankedConfiguration(row, self._read_by(row))

    def _read_by(self, row: LeaderboardRow) -> LayerPopulationsByName:
        names = dict.fromkeys(name for layers in self.populations.values() for name in layers)
        known = {
            name: {estimate: layers[name] for estimate, layers in self.populations.items() if name in layers}
            for name in names
        }
        chosen = {name: chosen_population(row.configuration, row.estimate, known[name]) for name in names}
        return {name: population for name, population in chosen.items() if population is not None}

    def __len__(self) -> int:
        return len(self.board.rows)

    def __iter__(self) -> Iterator[RankedConfiguration]:
        return (self[place] for place in range(len(self)))

    def __str__(self) -> str:
        out = io.StringIO()
        analysis = Analysis(comparison=self.comparison, recommendation=self.recommendation, doubt=self._doubt)
        table = leaderboard_table(self.board, groups=groups_of(analysis))
        lines = [*reasons(self.board), *analysis_lines(analysis)]
        Console(file=out, width=160).print(table, *lines, sep="\n", markup=False)
        return out.getvalue()
