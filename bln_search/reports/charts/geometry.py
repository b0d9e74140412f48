"""Charts of the geometry of training by epoch: weight norms, effective learning rates, curvature."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bln_search.core.records import LayerWeightNormAndCurvature
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.reports.charts.chart import Chart, plotly_layout, series_colour

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
