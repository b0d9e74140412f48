"""A row of the ranked table of a network, with what is needed to apply it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bln_search.core.blend import Blend, parse_estimate
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.norms.statistics import LayerPopulation
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.recommendation import is_deterministic

LayerPopulationsByName = Mapping[str, LayerPopulation]


@dataclass(frozen=True, repr=False)
class RankedConfiguration:
    """A row of the ranked table with its population values.

    Attributes:
        row: The row.
        populations: The population values that the row reads, by the name of the layer.
        without_estimate: Layers without a population of this estimate, which use the mini-batch instead.
        per_slot: Each slot of the mini-batch has its own population values.
        metrics: Values of `metrics=` by split and name; empty without metrics and for a row without a value.
    """

    row: LeaderboardRow
    populations: LayerPopulationsByName
    without_estimate: frozenset[str] = frozenset()
    per_slot: bool = False
    metrics: Mapping[Split, Mapping[str, float]] = field(default_factory=dict)

    @property
    def configuration(self) -> InferenceConfiguration:
        """The source of each statistic."""
        return self.row.configuration

    @property
    def blend(self) -> Blend | None:
        """The weight of the population in blended statistics; None if no statistic is blended."""
        return None if self.row.estimate is None else parse_estimate(self.row.estimate)[1]

    @property
    def is_independent(self) -> bool:
        """Whether the output for an example is independent of the rest of the mini-batch and of its position in it."""
        return is_deterministic(self.configuration, per_slot=self.per_slot)

    def of_layer(self, name: str) -> InferenceConfiguration:
        """The configuration of one layer."""
        return self.configuration.without_population if name in self.without_estimate else self.configuration

    def __str__(self) -> str:
        return f"{self.configuration}" + (f" ({self.row.estimate})" if self.row.estimate else "")

    def __repr__(self) -> str:
        metrics = self.row.metrics.get(Split.VALIDATION)
        rank = self.row.state if self.row.rank is None else f"rank {self.row.rank}"
        loss = "" if metrics is None else f", validation loss {metrics.loss.mean:.4f}"
        values = "".join(f", {name} {value:.4f}" for name, value in self.metrics.get(Split.VALIDATION, {}).items())
        return f"<{type(self).__name__}: {self}, {rank}{loss}{values}>"
