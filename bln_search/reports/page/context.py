"""Data of a study that the sections of its report read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bln_search.core.enums import Split
from bln_search.core.records import LayerWeightNormAndCurvature, RowKey, StatisticDrift
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import (
    LossBySeed,
    RowKeyWithoutConfiguration,
    group_losses_by_row,
    group_losses_by_setting_and_configuration,
)
from bln_search.ranking.leaderboard import Leaderboard, build_leaderboard_from_evaluations
from bln_search.ranking.probe_results import TrialProbe
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.reports.charts.configurations import ByConfiguration
from bln_search.reports.charts.curves import TrialLearningCurve
from bln_search.reports.charts.evaluation_settings import restrict_to_settings_of_best_points
from bln_search.reports.charts.search_progress import TriedPoint
from bln_search.specs.records import StudyRecord, TrialRecord


@dataclass(frozen=True)
class StudyReportContext:
    """A study with everything that a section may show.

    Attributes:
        study: The study.
        evaluations: All evaluations.
        trials: All trials, in the order of the study.
        manifest: Its manifest (`reports.manifest`).
        curves: Learning curves of the first trials.
        seconds: Inference time of 1,000 examples by arm and point.
        drifts: Drift of the batch statistics by arm and seed.
        geometries: Geometry of training by arm and point, then by seed.
        notes: Notes of the users.
        analysis: None before the study is complete.
        probes: All probes.
        tried_points: The points of a sampler in the order of suggestion.
    """

    study: StudyRecord
    evaluations: Sequence[TrialEvaluation]
    trials: Sequence[TrialRecord]
    manifest: Mapping[str, Any]
    curves: Sequence[TrialLearningCurve] = ()
    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    drifts: Mapping[str, Mapping[int, Sequence[StatisticDrift]]] = field(default_factory=dict)
    geometries: Mapping[tuple[str, str], Mapping[int, Sequence[LayerWeightNormAndCurvature]]] = field(
        default_factory=dict
    )
    notes: str = ""
    analysis: Analysis | None = None
    probes: Sequence[TrialProbe] = ()
    tried_points: Sequence[TriedPoint] = ()

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """The leaderboard."""
        spec = self.study.spec
        return build_leaderboard_from_evaluations(self.evaluations, spec.ranking.split, seeds=spec.ranked_seeds)

    @cached_property
    def losses_by_row(self) -> dict[RowKey, LossBySeed]:
        """Mean losses by seed of every row, on the split that decides the ranking."""
        return group_losses_by_row(self.evaluations, self.ranking_split)

    @property
    def keys_of_rows_not_worse(self) -> Collection[RowKey]:
        """Rows that may be the best one; empty without a comparison."""
        comparison = None if self.analysis is None else self.analysis.comparison
        return () if comparison is None else {row.key for row in comparison.rows_not_worse}

    @cached_property
    def chart_losses_by_setting(self) -> dict[RowKeyWithoutConfiguration, ByConfiguration]:
        """Losses of every configuration by evaluation setting; of a search, the settings of its best points."""
        return restrict_to_settings_of_best_points(group_losses_by_setting_and_configuration(self.losses_by_row))

    @property
    def ranking_split(self) -> Split:
        """Split that decides the ranking."""
        return self.leaderboard.ranked_on
