"""What the page is made from; whoever writes one gathers it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bln_search.core.enums import Split
from bln_search.core.records import Drift
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import Condition, Losses, losses_by_candidate, losses_by_condition
from bln_search.ranking.leaderboard import Candidate, Leaderboard, Scored, rank
from bln_search.ranking.probe_results import Probed
from bln_search.ranking.selection.seed_t_test import first_place
from bln_search.reports.charts.conditions import best_points
from bln_search.reports.charts.configurations import ByConfiguration
from bln_search.reports.charts.curves import TrialCurve
from bln_search.reports.protocols import StudyFacts, TrialFacts


@dataclass(frozen=True)
class Material:
    """A study with all that its sections may want.

    scored: every evaluation. trials: in the order of the study. curves: epochs of the first trials. seconds: for a
    thousand examples by arm and point. drifts: by arm, then by seed, what was found of the layers. notes: what people
    wrote beside it. manifest: as `reports.manifest` makes it. analysis: what was worked out of a complete study.
    probed: networks measured beside the leaderboard.
    """

    study: StudyFacts
    scored: Sequence[Scored]
    trials: Sequence[TrialFacts]
    manifest: Mapping[str, Any]
    curves: Sequence[TrialCurve] = ()
    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    drifts: Mapping[str, Mapping[int, Sequence[Drift]]] = field(default_factory=dict)
    notes: str = ""
    analysis: Analysis | None = None
    probed: Sequence[Probed] = ()

    @cached_property
    def board(self) -> Leaderboard:
        """The ranked table."""
        spec = self.study.spec
        return rank(self.scored, spec.ranking.split, seeds=len(spec.seeds))

    @cached_property
    def losses(self) -> dict[Candidate, Losses]:
        """Mean losses by seed of every row, on the split that decides."""
        return losses_by_candidate(self.scored, self.split)

    @cached_property
    def first(self) -> dict[Candidate, float] | None:
        """Rows that share the first place, each with its p; None where seeds can tell nothing."""
        return first_place(self.board, self.losses)

    @property
    def sharing(self) -> Collection[Candidate]:
        """Rows that share the first place: of all that were compared, else by their seeds alone."""
        if self.analysis is not None and self.analysis.comparison is not None:
            return {row.candidate for row in self.analysis.comparison.sharing_first}
        return self.first or {}

    @cached_property
    def conditions(self) -> dict[Condition, ByConfiguration]:
        """Losses of every configuration under each condition, of a search those of its best points."""
        return best_points(losses_by_condition(self.losses))

    @property
    def split(self) -> Split:
        """The split that decides."""
        return self.board.ranked_on
