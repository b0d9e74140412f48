"""The charts of a study: title, function and requirement of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from bln_search.core.enums import ProbeKind, Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import EvaluationSetting, losses_by_condition
from bln_search.ranking.probe_results import TrialProbe, batch_dependence
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import condition_labels
from bln_search.reports.charts.comparison import critical_difference_chart, differences_chart
from bln_search.reports.charts.conditions import best_point_rank_chart, best_points, point_results
from bln_search.reports.charts.configurations import ByConfiguration, effects_chart, heat_map
from bln_search.reports.charts.curves import ERROR, LOSS, Metric, TrialCurve, curves_chart
from bln_search.reports.charts.layers import drift_chart
from bln_search.reports.charts.per_layer import layer_switches_chart
from bln_search.reports.charts.probes import axis_chart, batch_dependence_chart, latency_chart
from bln_search.reports.charts.search import PointResult, importance_chart, parallel_coordinates_chart, pareto_chart
from bln_search.reports.charts.variance import variance_chart
from bln_search.specs.sections.search import Objective
from bln_search.storage.pagination import Page
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import Context
from service.security import StudyAccess

MAX_CONDITIONS = 40
_MAX_CURVES = 60


class ChartQuery:
    """Study, split and condition that a chart is drawn for."""

    def __init__(self, study: StudyAccess, context: Context, split: str, condition: int) -> None:
        self.study, self.context = study, context
        self.split = Split(split)
        self._condition_index = condition

    @cached_property
    def board(self) -> CachedLeaderboard:
        """The leaderboard of the study; computed only for a chart that needs it."""
        return self.context.leaderboards.get(self.study.id, self.study.results, allow_stale=self.study.is_active)

    @cached_property
    def conditions(self) -> dict[EvaluationSetting, ByConfiguration]:
        """The conditions that can be selected, with the losses of each."""
        return best_points(losses_by_condition(self.board.losses[self.split]))

    @property
    def condition_index(self) -> int:
        """Index of the selected condition."""
        return self._condition_index if self._condition_index < min(len(self.conditions), MAX_CONDITIONS) else 0

    @property
    def condition(self) -> EvaluationSetting | None:
        """The selected condition; None if nothing is measured yet."""
        return list(self.conditions)[self.condition_index] if self.conditions else None

    @property
    def losses(self) -> ByConfiguration:
        """Losses of the selected condition."""
        return list(self.conditions.values())[self.condition_index] if self.conditions else {}

    def list_probes(self, condition: EvaluationSetting, *kinds: ProbeKind) -> list[TrialProbe]:
        """Return the probes of these kinds of the condition's arm."""
        return self.context.ledger.probes.list_probes(self.study.id, arm=condition.arm, kinds=kinds)

    @property
    def analysis(self) -> Analysis | None:
        """The analysis of the study's results; None if there is none yet."""
        return self.context.analyses.get(self.study.id)

    def labels(self) -> list[str]:
        """Return the labels of the conditions."""
        return list(condition_labels(self.conditions).values())

    @cached_property
    def points(self) -> list[PointResult]:
        """Return every point of the study's space with its best mean loss."""
        return point_results(self.board.losses[self.split], self.inference_seconds)

    @cached_property
    def inference_seconds(self) -> dict[tuple[str, str], float]:
        """Inference time of 1,000 examples by arm and point; empty for a study that does not search for it."""
        search = self.board.spec.search
        if search is None or Objective.INFERENCE_SECONDS not in search.objectives:
            return {}
        return self.context.ledger.results.find_inference_seconds(self.study.id)


def _draw_curves(query: ChartQuery, metric: Metric) -> Chart | None:
    rows = query.context.ledger.listing.list_curves(query.study.id, Page(_MAX_CURVES, "position"), {})
    curves = [
        TrialCurve(curve.trial.arm, curve.trial.point_label, curve.trial.seed, curve.epochs)
        for curve in rows[:_MAX_CURVES]
    ]
    study = query.context.ledger.listing.find_study(query.study.id)
    return curves_chart(curves, sum(study.trials.values()) if study else len(curves), metric)


def _has_curves(query: ChartQuery) -> bool:
    """Whether a trial has an epoch: one that was trained here and has results has, else the first ones are read."""
    if query.study.results and query.board.spec.external is None:
        return True
    rows = query.context.ledger.listing.list_curves(query.study.id, Page(_MAX_CURVES, "position"), {})
    return any(curve.epochs for curve in rows)


def _has_points(query: ChartQuery, least: int) -> bool:
    """Whether so many points of a space are measured."""
    points = {key.point for key in query.board.losses[query.split] if key.point}
    return len(points) >= least


def _draw_drift(query: ChartQuery) -> Chart | None:
    condition = query.condition
    if condition is None:
        return None
    return drift_chart(query.context.ledger.results.list_drifts(query.study.id, condition.arm, condition.point))


def _draw_axis(query: ChartQuery, kind: ProbeKind) -> Chart | None:
    condition = query.condition
    if condition is None:
        return None
    probes = query.list_probes(condition, kind)
    return axis_chart(probes, kind, condition.arm, condition.point, condition.estimate or "")


def _draw_batch_dependence(query: ChartQuery) -> Chart | None:
    condition = query.condition
    if condition is None:
        return None
    probes = query.list_probes(condition, ProbeKind.RESHUFFLED, ProbeKind.SKEWED)
    dependence = batch_dependence(probes, per_slot=query.board.spec.has_slot_populations)
    return batch_dependence_chart(dependence, condition.arm, condition.point, condition.estimate or "")


def _draw_comparison(query: ChartQuery, draw: Callable[[Comparison], Chart | None]) -> Chart | None:
    analysis = query.analysis
    return None if analysis is None or analysis.comparison is None else draw(analysis.comparison)


def _draw_variance(query: ChartQuery) -> Chart | None:
    analysis, condition = query.analysis, query.condition
    if analysis is None or condition is None:
        return None
    return variance_chart(analysis.shares, condition.arm, condition.point)


def _draw_latencies(query: ChartQuery) -> Chart | None:
    analysis = query.analysis
    return None if analysis is None else latency_chart(analysis.latencies, analysis.device, analysis.threads)


def _draw_per_layer(query: ChartQuery) -> Chart | None:
    analysis, condition = query.analysis, query.condition
    if analysis is None or condition is None:
        return None
    matching = (layers for layers in analysis.layers if (layers.arm, layers.point) == (condition.arm, condition.point))
    result = next(matching, None)
    return None if result is None else layer_switches_chart(result)


class ChartEntry(NamedTuple):
    """A chart of the catalog.

    Attributes:
        title: Title.
        draw: Draws the chart; returns None if the study lacks the data.
        requirement: What the study then lacks.
        by_condition: Whether the selected condition decides what the chart shows.
        has_data: Whether the chart can be drawn, for a chart that takes long to draw; None to draw it and see.
    """

    title: str
    draw: Callable[[ChartQuery], Chart | None]
    requirement: str
    by_condition: bool = False
    has_data: Callable[[ChartQuery], bool] | None = None

    def can_be_drawn(self, query: ChartQuery) -> bool:
        """Whether the study has the data."""
        return self.draw(query) is not None if self.has_data is None else self.has_data(query)


RESULT, TRAINING, CONFIGURATIONS, SEARCH, LAYERS, TIME = (
    "Result",
    "Training",
    "Configurations",
    "Search",
    "Layers",
    "Time",
)

GROUPS: dict[str, dict[str, ChartEntry]] = {
    RESULT: {
        "configurations": ChartEntry(
            "Loss of every configuration",
            lambda query: heat_map(query.losses),
            "nothing is measured yet",
            by_condition=True,
        ),
        "differences": ChartEntry(
            "Differences to the best row",
            lambda query: _draw_comparison(query, differences_chart),
            "rows are compared when the study is complete",
        ),
        "critical-difference": ChartEntry(
            "Critical difference of mean ranks",
            lambda query: _draw_comparison(query, critical_difference_chart),
            "this needs a complete study with two seeds and three rows",
        ),
        "ranks": ChartEntry(
            "Ranks by condition",
            lambda query: best_point_rank_chart(query.conditions, MAX_CONDITIONS),
            "this needs a second population estimate, inference batch size, point or arm of the same method",
        ),
    },
    TRAINING: {
        "curves": ChartEntry(
            LOSS.title, lambda query: _draw_curves(query, LOSS), "nothing is trained yet", has_data=_has_curves
        ),
        "errors": ChartEntry(
            ERROR.title, lambda query: _draw_curves(query, ERROR), "nothing is trained yet", has_data=_has_curves
        ),
    },
    CONFIGURATIONS: {
        "switches": ChartEntry(
            "Effects of the switches",
            lambda query: effects_chart(query.losses),
            "this needs every configuration of the method measured under at least one seed",
            by_condition=True,
        ),
        "variance": ChartEntry(
            "Variance shares by factor",
            _draw_variance,
            "this needs a complete study, and a condition whose arm and point are among the compared rows",
            by_condition=True,
        ),
        "batch-sizes": ChartEntry(
            "Loss at other batch sizes",
            lambda query: _draw_axis(query, ProbeKind.SIZE),
            "this needs `probes: {batch_sizes: [1, 2, 4, 8]}` in the study, or `bln-search probe`",
            by_condition=True,
        ),
        "epochs": ChartEntry(
            "Loss after other epochs",
            lambda query: _draw_axis(query, ProbeKind.EPOCH),
            "this needs `probes: {epochs: 3}` in the study",
            by_condition=True,
        ),
        "company": ChartEntry(
            "Dependence on the mini-batch",
            _draw_batch_dependence,
            "this needs `probes: {reshuffles: 5}` in the study, or `bln-search probe`",
            by_condition=True,
        ),
    },
    SEARCH: {
        "importance": ChartEntry(
            "Parameter importance",
            lambda query: importance_chart(query.points),
            "this needs a study with a space, and eight of its points measured",
            has_data=lambda query: _has_points(query, 8),
        ),
        "points": ChartEntry(
            "Points of the search",
            lambda query: parallel_coordinates_chart(query.points),
            "this needs a study with a space, and two of its points measured",
            has_data=lambda query: _has_points(query, 2),
        ),
        "front": ChartEntry(
            "Loss and inference time",
            lambda query: pareto_chart(query.points) if _has_points(query, 2) else None,
            "this needs a search with the objective inference_seconds",
            has_data=lambda query: _has_points(query, 2) and bool(query.inference_seconds),
        ),
    },
    LAYERS: {
        "layers": ChartEntry(
            "Population and mini-batch statistics",
            _draw_drift,
            "the networks of this study did not record this; new ones do",
            by_condition=True,
        ),
        "per-layer": ChartEntry(
            "Effects of the switches by layer",
            _draw_per_layer,
            "this needs a section `layers` in the study, and its networks searched",
            by_condition=True,
        ),
    },
    TIME: {
        "latencies": ChartEntry(
            "Inference time",
            _draw_latencies,
            "this is measured by a worker when the study is complete",
        ),
    },
}
"""The charts by group, in the order of the page."""

CHARTS: dict[str, ChartEntry] = {name: entry for charts in GROUPS.values() for name, entry in charts.items()}
"""Every chart by its name in URLs."""
