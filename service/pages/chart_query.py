"""What a chart of a study is drawn from: study, split and setting of the page; charts that need more than these."""

from __future__ import annotations

from functools import cached_property

from bln_search.core.enums import ProbeKind, Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import RowKeyWithoutConfiguration, group_losses_by_setting_and_configuration
from bln_search.ranking.probe_results import TrialProbe, compute_batch_dependence_by_row
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import unique_setting_labels
from bln_search.reports.charts.comparison import differences_to_best_chart, variance_shares_chart
from bln_search.reports.charts.configurations import ByConfiguration
from bln_search.reports.charts.curves import EpochMetric, TrialLearningCurve, learning_curves_chart
from bln_search.reports.charts.evaluation_settings import (
    restrict_to_settings_of_best_points,
    search_measure_name,
    search_point_results_from_rows,
    search_point_results_from_trials,
    setting_configurations_chart,
)
from bln_search.reports.charts.layers import LayerGeometryMeasure, geometry_by_epoch_chart, statistics_drift_chart
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from bln_search.reports.charts.probes import batch_dependence_chart, latency_chart, probe_curve_chart
from bln_search.reports.charts.search import SearchPointResult
from bln_search.reports.charts.search_progress import TriedPoint, has_sampler, list_tried_points
from bln_search.reports.formatting import recommended_row_key
from bln_search.specs.sections.point_labels import make_label_by_distinct_point
from bln_search.specs.sections.search import Objective
from bln_search.specs.study import StudySpec
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

    @property
    def loss_unit(self) -> str:
        """Unit of the loss; empty for a loss without one."""
        return self.board.spec.loss_description.unit

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

    @cached_property
    def tried_points(self) -> list[TriedPoint]:
        """The points of a sampler in the order of suggestion; none without one."""
        return read_tried_points(self.context, self.study.id, self.board.spec)

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


_MAX_CURVES = 60


def build_configuration_losses_chart(query: StudyChartQuery) -> Chart | None:
    """Mean loss of every configuration under the selected evaluation setting."""
    setting = query.selected_setting
    if setting is None:
        return None
    losses, board = query.losses_of_selected_setting, query.board.leaderboard
    return setting_configurations_chart(losses, board, setting, query.analysis, unit=query.loss_unit)


def build_learning_curves_chart(query: StudyChartQuery, metric: EpochMetric) -> Chart | None:
    """Learning curves of the first trials, after a search those of its best points."""
    curves, trials = read_learning_curves(query.context, query.study.id, _MAX_CURVES)
    return learning_curves_chart(curves, trials, metric, unit=query.loss_unit)


def read_learning_curves(context: AppContext, study_id: int, most: int) -> tuple[list[TrialLearningCurve], int]:
    """Return the curves of the first trials of a study, at most `most`, and the number of all its trials."""
    rows = context.ledger.trial_lists.list_charted_learning_curves(study_id, most)
    labels = make_label_by_distinct_point(curve.trial.point_json for curve in rows)
    curves = [
        TrialLearningCurve(curve.trial.arm, labels[curve.trial.point_json], curve.trial.seed, curve.epochs)
        for curve in rows
    ]
    study = context.ledger.study_lists.find_study_item(study_id)
    return curves, sum(study.trials.values()) if study else len(curves)


def read_tried_points(context: AppContext, study_id: int, spec: StudySpec) -> list[TriedPoint]:
    """Return the points of the sampler of a study in the order of suggestion; none without one."""
    if not has_sampler(spec):
        return []
    return list_tried_points(context.ledger.trials.list_sampled_trials_grouped_by_point(study_id), spec)


def has_learning_curves(query: StudyChartQuery) -> bool:
    """Whether a trial has an epoch: one that was trained here and has results has, else the first ones are read."""
    if any(query.board.losses[query.split].values()) and query.board.spec.external is None:
        return True
    rows = query.context.ledger.trial_lists.list_charted_learning_curves(query.study.id, _MAX_CURVES)
    return any(curve.epochs for curve in rows)


def has_accuracy_curves(query: StudyChartQuery) -> bool:
    """Whether a trial has an epoch, in a study whose task has an accuracy."""
    spec = query.board.spec
    return spec.external is None and spec.resolved_task.description.has_accuracy and has_learning_curves(query)


def has_enough_measured_points(query: StudyChartQuery, least: int) -> bool:
    """Whether so many points of a space are measured."""
    if query.board.spec.trains_best_points_after_search:
        return len(query.search_point_results) >= least
    points = {key.point for key in query.board.losses[query.split] if key.point}
    return len(points) >= least


def build_statistics_drift_chart(query: StudyChartQuery) -> Chart | None:
    """Difference of population and mini-batch statistics by layer."""
    setting = query.selected_setting
    if setting is None:
        return None
    return statistics_drift_chart(
        query.context.ledger.results.read_layer_drifts_by_seed(query.study.id, setting.arm, setting.point)
    )


def build_layer_geometry_chart(query: StudyChartQuery, measure: LayerGeometryMeasure) -> Chart | None:
    """A measure of the geometry of training by epoch."""
    return geometry_by_epoch_chart(
        query.context.ledger.results.read_layer_geometries_by_arm_and_point(query.study.id), measure
    )


def build_probe_losses_chart(query: StudyChartQuery, kind: ProbeKind) -> Chart | None:
    """Loss at other batch sizes or after other epochs."""
    setting = query.selected_setting
    if setting is None:
        return None
    probes = query.list_probes_of_arm(setting, kind)
    estimate = setting.estimate or ""
    return probe_curve_chart(probes, kind, setting.arm, setting.point, estimate, unit=query.loss_unit)


def build_batch_dependence_chart(query: StudyChartQuery) -> Chart | None:
    """Predicted classes or losses that change with the composition of the mini-batch."""
    setting = query.selected_setting
    if setting is None:
        return None
    probes = query.list_probes_of_arm(setting, ProbeKind.RESHUFFLED, ProbeKind.SKEWED)
    spec = query.board.spec
    dependence = compute_batch_dependence_by_row(probes, per_slot=spec.has_populations_per_slot)
    unit = spec.loss_description.unit
    return batch_dependence_chart(dependence, setting.arm, setting.point, setting.estimate or "", unit=unit)


def build_differences_chart(query: StudyChartQuery) -> Chart | None:
    """Differences of all compared rows to the best one."""
    analysis = query.analysis
    if analysis is None or analysis.comparison is None:
        return None
    recommended = recommended_row_key(analysis)
    return differences_to_best_chart(analysis.comparison, unit=query.loss_unit, recommended=recommended)


def build_variance_shares_chart(query: StudyChartQuery) -> Chart | None:
    """Shares of the variance of the loss by factor."""
    analysis, setting = query.analysis, query.selected_setting
    if analysis is None or setting is None:
        return None
    return variance_shares_chart(analysis.shares, setting.arm, setting.point)


def build_latencies_chart(query: StudyChartQuery) -> Chart | None:
    """Inference time of the recommended row and others."""
    analysis = query.analysis
    return None if analysis is None else latency_chart(analysis.latencies, analysis.device, analysis.threads)


def build_layer_switch_effects_chart(query: StudyChartQuery) -> Chart | None:
    """Effects of the switches of each layer."""
    analysis, setting = query.analysis, query.selected_setting
    if analysis is None or setting is None:
        return None
    matching = (layers for layers in analysis.layers if (layers.arm, layers.point) == (setting.arm, setting.point))
    result = next(matching, None)
    return None if result is None else layer_switch_effects_heat_map(result)
