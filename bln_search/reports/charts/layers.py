"""Charts of the layers: mini-batch statistics against the population, geometry of training by epoch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bln_search.core.method import Statistic
from bln_search.core.records import LayerWeightNormAndCurvature, StatisticDrift
from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval
from bln_search.reports.charts.chart import SYMBOLS, Chart, plotly_layout, series_colour

_REFERENCE_ESTIMATE = "frozen"


def statistics_drift_chart(by_seed: Mapping[int, Sequence[StatisticDrift]]) -> Chart | None:
    """Spread of mini-batches in every layer, and the shift of each estimate; None if nothing was recorded."""
    drift_values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for drifts in by_seed.values():
        for drift in drifts:
            measures = drift_values.setdefault(
                (drift.layer, drift.statistic, drift.estimate), {"spread": [], "shift": []}
            )
            for measure in measures:
                value = getattr(drift, measure)
                if value is not None:
                    measures[measure].append(value)
    if not drift_values:
        return None
    layers = list(dict.fromkeys(layer for layer, _, _ in drift_values))
    estimates = list(dict.fromkeys(estimate for _, _, estimate in drift_values))
    reference = _REFERENCE_ESTIMATE if _REFERENCE_ESTIMATE in estimates else estimates[0]
    traces = []
    for position, statistic in enumerate(Statistic):
        spreads = {
            layer: mean_with_t_interval(measures["spread"])
            for (layer, name, estimate), measures in drift_values.items()
            if name == statistic and estimate == reference and measures["spread"]
        }
        if spreads:
            traces.append(_spread_bar_trace(statistic, spreads, series_colour(position)))
        for index, estimate in enumerate(other for other in estimates if other != reference):
            shifts = {
                layer: statistics.fmean(measures["shift"])
                for (layer, name, measured), measures in drift_values.items()
                if name == statistic and measured == estimate and measures["shift"]
            }
            if shifts:
                traces.append(
                    _shift_marker_trace(statistic, estimate, shifts, series_colour(position), SYMBOLS[index + 1])
                )
    figure = {
        "data": traces,
        "layout": plotly_layout(
            "layer", "spread or shift (standard deviations of the layer)", barmode="group", xaxis={"type": "category"}
        ),
    }
    rows = [
        {
            "layer": layer,
            "statistic": statistic,
            "estimate": estimate,
            "spread": statistics.fmean(measures["spread"]) if measures["spread"] else None,
            "shift": statistics.fmean(measures["shift"]) if measures["shift"] else None,
            "seeds": len(measures["spread"]),
        }
        for (layer, statistic, estimate), measures in drift_values.items()
    ]
    order = {layer: index for index, layer in enumerate(layers)}
    rows.sort(key=lambda row: order[str(row["layer"])])
    caption = (
        f"Bars: spread of the statistic of training mini-batches around the {reference} population, with 95 % "
        "confidence intervals over seeds. Marks: distance of another population estimate from it."
    )
    return Chart("Population and mini-batch statistics", caption, figure, rows)


def _spread_bar_trace(statistic: str, spreads: Mapping[str, ConfidenceInterval], colour_code: str) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "bar",
        "name": f"{statistic} spread",
        "x": list(spreads),
        "y": [interval.mean for interval in spreads.values()],
        "marker": {"color": colour_code},
        "hovertemplate": f"%{{x}}: {statistic} spread %{{y:.4f}}<extra></extra>",
    }
    if all(interval.half is not None for interval in spreads.values()):
        trace["error_y"] = {"type": "data", "array": [interval.half for interval in spreads.values()], "thickness": 1}
    return trace


def _shift_marker_trace(
    statistic: str, estimate: str, shifts: Mapping[str, float], colour_code: str, symbol: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{statistic} {estimate}",
        "x": list(shifts),
        "y": list(shifts.values()),
        "marker": {"color": colour_code, "symbol": symbol, "size": 9, "line": {"width": 1, "color": "#808080"}},
        "hovertemplate": f"%{{x}}: {statistic} of {estimate} differs by %{{y:.4f}}<extra></extra>",
    }


_MAX_NETWORKS = 8
"""Number of arms and points that are drawn."""

GeometryBySeed = Mapping[int, Sequence[LayerWeightNormAndCurvature]]


@dataclass(frozen=True)
class LayerGeometryMeasure:
    """A measure of a layer: its attribute of LayerWeightNormAndCurvature, the title of its chart, and the axis name."""

    attribute: str
    title: str
    axis: str


WEIGHT_NORM = LayerGeometryMeasure("weight_norm", "Norm of the weights by epoch", "norm of a unit's weights")
EFFECTIVE_RATE = LayerGeometryMeasure(
    "effective_rate", "Effective learning rate by epoch", "learning rate / squared norm of the weights"
)
CURVATURE = LayerGeometryMeasure("curvature", "Curvature by epoch", "Fisher information of a weight")


def geometry_by_epoch_chart(
    geometries: Mapping[tuple[str, str], GeometryBySeed], measure: LayerGeometryMeasure
) -> Chart | None:
    """A measure by epoch, one line for each arm and point; None where no network recorded it.

    Args:
        geometries: Geometry of every layer after every epoch by arm and point, then by seed.
        measure: The measure, averaged over the layers of a network.
    """
    drawn = dict(list(geometries.items())[:_MAX_NETWORKS])
    labels = {key: " ".join(part for part in key if part) for key in drawn}
    traces = [
        _network_line_trace(labels[key], _layer_means_by_epoch(by_seed, measure), series_colour(index))
        for index, (key, by_seed) in enumerate(drawn.items())
    ]
    traces = [trace for trace in traces if trace["x"]]
    if not traces:
        return None
    rows = [
        {"arm": key[0], "parameters": key[1], "seed": seed, **asdict(layer)}
        for key, by_seed in drawn.items()
        for seed, layers in by_seed.items()
        for layer in layers
    ]
    layout = plotly_layout("epoch", measure.axis, xaxis={"rangemode": "tozero"}, yaxis={"type": "log"})
    caption = (
        "Mean over the dense and convolutional layers of a network; error bars are 95 % confidence intervals of the "
        "mean over seeds. The table has every layer."
    )
    if len(drawn) < len(geometries):
        caption += f" {len(drawn)} of {len(geometries)} arms and points are drawn."
    return Chart(measure.title, caption, {"data": traces, "layout": layout}, rows)


def _layer_means_by_epoch(by_seed: GeometryBySeed, measure: LayerGeometryMeasure) -> dict[int, list[float]]:
    """The mean over the layers after every epoch, one value for each seed."""
    means: dict[int, list[float]] = {}
    for layers in by_seed.values():
        for epoch in dict.fromkeys(layer.epoch for layer in layers):
            values = [getattr(layer, measure.attribute) for layer in layers if layer.epoch == epoch]
            known = [value for value in values if value is not None]
            if known:
                means.setdefault(epoch, []).append(statistics.fmean(known))
    return means


def _network_line_trace(name: str, means: Mapping[int, Sequence[float]], colour_code: str) -> dict[str, Any]:
    intervals = {epoch: mean_with_t_interval(values) for epoch, values in means.items()}
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(intervals),
        "y": [interval.mean for interval in intervals.values()],
        "line": {"color": colour_code},
        "hovertemplate": f"{name}, epoch %{{x}}: %{{y:.4g}}<extra></extra>",
    }
    if all(interval.half is not None for interval in intervals.values()):
        halves = [interval.half for interval in intervals.values()]
        trace["error_y"] = {"type": "data", "array": halves, "thickness": 1}
    return trace
