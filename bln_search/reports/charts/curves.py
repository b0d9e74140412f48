"""Learning curves: one line per trial, and a band over the seeds of an arm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval
from bln_search.reports.charts.chart import Chart, axis_title, colour_with_opacity, plotly_layout, series_colour

_AXIS_QUANTILE, _AXIS_FACTOR = 0.9, 2.0
"""The axis ends at this multiple of this quantile of all values, if any value is larger."""

_BAND_MARGIN = 0.25
"""A band ends at this part of the range of all lines above and below them."""

_MAX_TICKED_EPOCHS = 10
"""Number of epochs up to which each has a tick."""

_KINDS = {"training": "dot", "validation": "solid", "test": "dash"}
"""The line of each split; epochs of few studies have values of `test`."""


@dataclass(frozen=True)
class EpochMetric:
    """A metric of an epoch.

    Attributes:
        key: Its key in an epoch, after `training_`, `validation_` or `test_`.
        name: Its name with its unit.
        title: Title of its chart.
    """

    key: str
    name: str
    title: str

    def value_of_epoch(self, epoch: Mapping[str, Any], kind: str) -> float | None:
        """Value of an epoch, errors in per cent; None where it is missing."""
        value: float | None = epoch.get(f"{kind}_{self.key}")
        if value is None:
            return None
        return 100 * (1 - value) if self.key == "accuracy" else value

    @property
    def max_possible_value(self) -> float:
        """The largest possible value."""
        return 100.0 if self.key == "accuracy" else math.inf


LOSS = EpochMetric("loss", "loss", "Losses by epoch")
ERROR = EpochMetric("accuracy", "error (%)", "Errors by epoch")


@dataclass(frozen=True)
class TrialLearningCurve:
    """Epochs of a trial, each with training_loss and validation_loss, and both accuracies (fraction, or None).

    Epochs may have test_loss and test_accuracy.
    """

    arm: str
    point: str
    seed: int
    epochs: Sequence[Mapping[str, Any]]


def learning_curves_chart(
    curves: Sequence[TrialLearningCurve], trial_count: int, metric: EpochMetric = LOSS, *, unit: str = "nats"
) -> Chart | None:
    """Training (dotted), validation (solid) and test (dashed) by epoch, one colour per arm; None without values.

    Args:
        curves: Curves of the drawn trials.
        trial_count: Number of all trials.
        metric: The metric.
        unit: Unit of the loss; empty if it has none, or differs between the curves.
    """
    curves = [
        curve for curve in curves if any(metric.value_of_epoch(epoch, "training") is not None for epoch in curve.epochs)
    ]
    if not curves:
        return None
    has_test = any(metric.value_of_epoch(epoch, "test") is not None for curve in curves for epoch in curve.epochs)
    kinds = {kind: dash for kind, dash in _KINDS.items() if kind != "test" or has_test}
    groups: dict[str, list[TrialLearningCurve]] = {}
    for curve in curves:
        groups.setdefault(curve.arm, []).append(curve)
    axis_end = _find_axis_end_below_outliers(curves, metric)
    limits = _find_band_limits(curves, metric, axis_end)
    traces: list[dict[str, Any]] = []
    has_bands = has_cut_bands = False
    for position, members in enumerate(groups.values()):
        has_band = len({curve.point for curve in members}) == 1 and len(members) > 1
        has_bands |= has_band
        for kind, dash in kinds.items():
            intervals = _intervals_by_epoch(members, metric, kind) if has_band else {}
            has_cut_bands |= any(
                (interval.low or 0.0) < limits[0] or (interval.high or 0.0) > limits[1]
                for interval in intervals.values()
            )
            traces += _confidence_band_traces(intervals, limits, series_colour(position))
            traces += [
                _trial_line_trace(curve, metric, kind, series_colour(position), dash, in_legend=index == 0)
                for index, curve in enumerate(members)
            ]
    axis: dict[str, Any] = {} if axis_end is None else {"range": [0, axis_end]}
    epochs: dict[str, Any] = {"rangemode": "tozero"}
    if max(len(curve.epochs) for curve in curves) <= _MAX_TICKED_EPOCHS:
        epochs["dtick"] = 1  # ticks at whole epochs
    title = axis_title(metric.name, unit if metric is LOSS else "")
    figure = {
        "data": traces,
        "layout": plotly_layout("epoch", title, hovermode="closest", xaxis=epochs, yaxis=axis),
    }
    rows = [
        {"arm": curve.arm, "parameters": curve.point, "seed": curve.seed, **epoch}
        for curve in curves
        for epoch in curve.epochs
    ]
    caption = (
        "One line per trial, dotted on the training data, solid on the validation data"
        f"{', dashed on the test data, which selects nothing' if has_test else ''}"
        f"{'; bands are 95 % confidence intervals of the mean over seeds' if has_bands else ''}."
    )
    if has_cut_bands:
        caption += " Bands are cut off where no value is possible, and far outside all lines."
    if axis_end is not None:
        caption += f" Values above {axis_end:.3g} are not shown."
    if len(curves) < trial_count:
        caption += f" {len(curves)} of {trial_count:,} trials are drawn."
    return Chart(metric.title, caption, figure, rows)


def _all_values(curves: Sequence[TrialLearningCurve], metric: EpochMetric) -> list[float]:
    """The drawn values of all curves in increasing order."""
    values = (metric.value_of_epoch(epoch, kind) for curve in curves for epoch in curve.epochs for kind in _KINDS)
    return sorted(value for value in values if value is not None)


def _find_axis_end_below_outliers(curves: Sequence[TrialLearningCurve], metric: EpochMetric) -> float | None:
    """Upper end of the axis if a few large values would flatten all curves, else None."""
    values = _all_values(curves, metric)
    if not values:
        return None
    limit = _AXIS_FACTOR * values[int(len(values) * _AXIS_QUANTILE)]
    return limit if values[-1] > limit else None


def _find_band_limits(
    curves: Sequence[TrialLearningCurve], metric: EpochMetric, axis_end: float | None
) -> tuple[float, float]:
    """Lowest and highest value of the bands: few seeds have wide intervals, which would flatten all curves.

    The limits are those of the lines with a margin; not below 0 unless a line is, and not above the largest possible
    value.
    """
    values = _all_values(curves, metric)
    low, high = values[0], min(values[-1], math.inf if axis_end is None else axis_end)
    margin = _BAND_MARGIN * (high - low) or abs(high)
    return low - margin if low < 0 else max(0.0, low - margin), min(metric.max_possible_value, high + margin)


def _trial_line_trace(
    curve: TrialLearningCurve, metric: EpochMetric, kind: str, colour_code: str, dash: str, *, in_legend: bool
) -> dict[str, Any]:
    name = f"{curve.arm}, {kind}"
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [epoch["epoch"] for epoch in curve.epochs],
        "y": [metric.value_of_epoch(epoch, kind) for epoch in curve.epochs],
        "name": name,
        "legendgroup": name,
        "showlegend": in_legend,
        "line": {"color": colour_code, "dash": dash, "width": 1.3},
        "opacity": 0.8,
        "hovertemplate": f"{name}, {curve.point} seed {curve.seed}, epoch %{{x}}: %{{y:.4f}}<extra></extra>",
    }


def _intervals_by_epoch(
    members: Sequence[TrialLearningCurve], metric: EpochMetric, kind: str
) -> dict[int, ConfidenceInterval]:
    """Confidence interval of the mean over seeds by epoch, up to the last epoch that all seeds have."""
    values: dict[int, list[float]] = {}
    for curve in members:
        for epoch in curve.epochs:
            value = metric.value_of_epoch(epoch, kind)
            if value is not None:
                values.setdefault(epoch["epoch"], []).append(value)
    return {
        epoch: mean_with_t_interval(by_seed)
        for epoch, by_seed in sorted(values.items())
        if len(by_seed) == len(members)
    }


def _confidence_band_traces(
    intervals: Mapping[int, ConfidenceInterval], limits: tuple[float, float], colour_code: str
) -> list[dict[str, Any]]:
    """Band of the confidence intervals within the limits; none without intervals."""
    if not intervals:
        return []

    def within_limits(end: float | None) -> float | None:
        return None if end is None else min(limits[1], max(limits[0], end))

    epochs = list(intervals)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": epochs + epochs[::-1],
            "y": [within_limits(interval.high) for interval in intervals.values()]
            + [within_limits(interval.low) for interval in reversed(list(intervals.values()))],
            "fill": "toself",
            "fillcolor": colour_with_opacity(colour_code, 0.15),
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
