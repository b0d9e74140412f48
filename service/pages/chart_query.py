"""What a chart of a study is drawn from: the study, and the split and evaluation setting that the page has chosen."""

from __future__ import annotations

from functools import cached_property

from bln_search.core.enums import ProbeKind, Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import RowKeyWithoutConfiguration, group_losses_by_setting_and_configuration
from bln_search.ranking.probe_results import TrialProbe
from bln_search.reports.charts.chart import unique_setting_labels
from bln_search.reports.charts.configurations import ByConfiguration
from bln_search.reports.charts.evaluation_settings import (
    restrict_to_settings_of_best_points,
    search_measure_name,
    search_point_results_from_rows,
    search_point_results_from_trials,
)
from bln_search.reports.charts.search import SearchPointResult
from bln_search.specs.sections.search import Objective
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext
from service.security import StudyAccess

MAX_SETTINGS = 40


class StudyChartQuery:
    """Study, split and evaluation setting that a chart is drawn for."""

    def __init__(self, study: StudyAccess, context: AppContext, split: str, setting: int) -> None:
        self.study, self.context = study, context
        self.split = Split(split)
        self._setting_index = setting

    @cached_property
    def board(self) -> CachedLeaderboard:
        """The leaderboard of the study; computed only for a chart that needs it."""
        return self.context.leaderboards.get_or_compute(
            self.study.id, self.study.results, allow_stale=self.study.is_queued_or_running
        )

    @cached_property
    def losses_by_selectable_setting(self) -> dict[RowKeyWithoutConfiguration, ByConfiguration]:
        """Losses of the evaluation settings that can be selected."""
        return restrict_to_settings_of_best_points(
            group_losses_by_setting_and_configuration(self.board.losses[self.split])
        )

    @property
    def selected_setting_index(self) -> int:
        """Index of the selected evaluation setting."""
        return (
            self._setting_index
            if self._setting_index < min(len(self.losses_by_selectable_setting), MAX_SETTINGS)
            else 0
        )

    @property
    def selected_setting(self) -> RowKeyWithoutConfiguration | None:
        """The selected evaluation setting; None if nothing is measured yet."""
        return (
            list(self.losses_by_selectable_setting)[self.selected_setting_index]
            if self.losses_by_selectable_setting
            else None
        )

    @property
    def losses_of_selected_setting(self) -> ByConfiguration:
        """Losses under the selected evaluation setting."""
        return (
            list(self.losses_by_selectable_setting.values())[self.selected_setting_index]
            if self.losses_by_selectable_setting
            else {}
        )

    def list_probes_of_arm(self, setting: RowKeyWithoutConfiguration, *kinds: ProbeKind) -> list[TrialProbe]:
        """Return the probes of these kinds of the arm of an evaluation setting."""
        return self.context.ledger.probes.list_probes(self.study.id, arm=setting.arm, kinds=kinds)

    @property
    def analysis(self) -> Analysis | None:
        """The analysis of the study's results; None if there is none yet."""
        return self.context.analyses.find_or_load_current_analysis(self.study.id)

    def list_selectable_setting_labels(self) -> list[str]:
        """Return the labels of the evaluation settings."""
        return list(unique_setting_labels(self.losses_by_selectable_setting).values())

    @cached_property
    def search_point_results(self) -> list[SearchPointResult]:
        """Every point of the space with its best mean loss, or with the objective of its search trials."""
        if self.board.spec.trains_best_points_after_search:
            return search_point_results_from_trials(
                self.context.ledger.trials.list_trials(self.study.id), self.board.spec
            )
        return search_point_results_from_rows(self.board.losses[self.split], self.inference_seconds_by_arm_and_point)

    @property
    def point_comparison_measure(self) -> str:
        """What points are compared by."""
        return search_measure_name(self.board.spec)

    @cached_property
    def inference_seconds_by_arm_and_point(self) -> dict[tuple[str, str], float]:
        """Inference time of 1,000 examples by arm and point; empty for a study without."""
        search = self.board.spec.search
        if search is None or search.then_train or Objective.INFERENCE_SECONDS not in search.objectives:
            return {}
        return self.context.ledger.results.read_seconds_per_1000_examples_by_arm_point(self.study.id)
