"""Charts that need more of a study than its leaderboard; None where the study lacks the data."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.core.enums import ProbeKind
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.probe_results import batch_dependence
from bln_search.reports.charts import Chart
from bln_search.reports.charts.curves import Metric, TrialCurve, curves_chart
from bln_search.reports.charts.geometry import GeometryMeasure, geometry_chart
from bln_search.reports.charts.layers import drift_chart
from bln_search.reports.charts.per_layer import layer_switches_chart
from bln_search.reports.charts.probes import batch_dependence_chart, latency_chart, probe_curve_chart
from bln_search.reports.charts.variance import variance_chart
from bln_search.storage.pagination import Page
from service.pages.chart_query import ChartQuery

_MAX_CURVES = 60


def draw_curves(query: ChartQuery, metric: Metric) -> Chart | None:
    """Learning curves of the first trials."""
    rows = query.context.ledger.listing.list_curves(query.study.id, Page(_MAX_CURVES, "position"), {})
    curves = [
        TrialCurve(curve.trial.arm, curve.trial.point_label, curve.trial.seed, curve.epochs)
        for curve in rows[:_MAX_CURVES]
    ]
    study = query.context.ledger.listing.find_study(query.study.id)
    return curves_chart(curves, sum(study.trials.values()) if study else len(curves), metric)


def has_curves(query: ChartQuery) -> bool:
    """Whether a trial has an epoch: one that was trained here and has results has, else the first ones are read."""
    if query.study.results and query.board.spec.external is None:
        return True
    rows = query.context.ledger.listing.list_curves(query.study.id, Page(_MAX_CURVES, "position"), {})
    return any(curve.epochs for curve in rows)


def has_points(query: ChartQuery, least: int) -> bool:
    """Whether so many points of a space are measured."""
    points = {key.point for key in query.board.losses[query.split] if key.point}
    return len(points) >= least


def draw_drift(query: ChartQuery) -> Chart | None:
    """Difference of population and mini-batch statistics by layer."""
    setting = query.setting
    if setting is None:
        return None
    return drift_chart(query.context.ledger.results.list_drifts(query.study.id, setting.arm, setting.point))


def draw_geometry(query: ChartQuery, measure: GeometryMeasure) -> Chart | None:
    """A measure of the geometry of training by epoch."""
    return geometry_chart(query.context.ledger.results.list_layer_geometries(query.study.id), measure)


def has_geometry(query: ChartQuery) -> bool:
    """Whether the study measures the geometry of its networks."""
    probes = query.board.spec.probes
    return probes is not None and probes.geometry is not None


def draw_axis(query: ChartQuery, kind: ProbeKind) -> Chart | None:
    """Loss at other batch sizes or after other epochs."""
    setting = query.setting
    if setting is None:
        return None
    probes = query.list_probes(setting, kind)
    return probe_curve_chart(probes, kind, setting.arm, setting.point, setting.estimate or "")


def draw_batch_dependence(query: ChartQuery) -> Chart | None:
    """Predictions that change with the composition of the mini-batch."""
    setting = query.setting
    if setting is None:
        return None
    probes = query.list_probes(setting, ProbeKind.RESHUFFLED, ProbeKind.SKEWED)
    dependence = batch_dependence(probes, per_slot=query.board.spec.has_slot_populations)
    return batch_dependence_chart(dependence, setting.arm, setting.point, setting.estimate or "")


def draw_comparison(query: ChartQuery, draw: Callable[[Comparison], Chart | None]) -> Chart | None:
    """A chart of the comparison of all rows."""
    analysis = query.analysis
    return None if analysis is None or analysis.comparison is None else draw(analysis.comparison)


def draw_variance(query: ChartQuery) -> Chart | None:
    """Shares of the variance of the loss by factor."""
    analysis, setting = query.analysis, query.setting
    if analysis is None or setting is None:
        return None
    return variance_chart(analysis.shares, setting.arm, setting.point)


def draw_latencies(query: ChartQuery) -> Chart | None:
    """Inference time of the recommended row and others."""
    analysis = query.analysis
    return None if analysis is None else latency_chart(analysis.latencies, analysis.device, analysis.threads)


def draw_per_layer(query: ChartQuery) -> Chart | None:
    """Effects of the switches of each layer."""
    analysis, setting = query.analysis, query.setting
    if analysis is None or setting is None:
        return None
    matching = (layers for layers in analysis.layers if (layers.arm, layers.point) == (setting.arm, setting.point))
    result = next(matching, None)
    return None if result is None else layer_switches_chart(result)
