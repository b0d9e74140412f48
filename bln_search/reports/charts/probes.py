"""Charts of probes: losses along batch sizes and epochs, dependence on the mini-batch, time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bln_search.core.enums import ProbeKind
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import MeasuredLatency
from bln_search.ranking.probe_results import (
    BatchDependence,
    ProbeCurveKey,
    ProbeCurvePoint,
    TrialProbe,
    compute_probe_curves,
    find_best_row_changes,
)
from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    configuration_sort_key,
    plotly_layout,
    series_colour,
)

_AXES = {
    ProbeKind.SIZE: ("Loss at other batch sizes", "inference mini-batch size", "log"),
    ProbeKind.EPOCH: ("Loss after other epochs", "epoch of the weights", "linear"),
}


def probe_curve_chart(
    probes: Iterable[TrialProbe], kind: ProbeKind, arm: str, point: str, estimate: str
) -> Chart | None:
    """Mean validation loss of every configuration along batch sizes or epochs; None if it was not probed."""
    curves = {
        key: points
        for key, points in compute_probe_curves(probes, kind).items()
        if key.arm == arm and key.point == point and key.estimate in (estimate, "")
    }
    if not curves:
        return None
    title, axis, scale = _AXES[kind]
    ordered = sorted(curves, key=lambda key: configuration_sort_key(key.configuration))
    traces = [_configuration_line_trace(key, curves[key], position) for position, key in enumerate(ordered)]
    ticks = sorted({point.at for points in curves.values() for point in points})
    figure = {
        "data": traces,
        "layout": plotly_layout(
            axis,
            "validation loss",
            xaxis={
                "type": scale,
                **({"tickvals": ticks, "ticktext": [str(at) for at in ticks]} if scale == "log" else {}),
            },
            hovermode="closest",
        ),
    }
    rows = [
        {
            "configuration": key.configuration,
            kind.value: point.at,
            "loss": point.loss.mean,
            "low": point.loss.low,
            "high": point.loss.high,
            "accuracy": point.accuracy.mean,
            "seeds": point.loss.n,
        }
        for key in ordered
        for point in curves[key]
    ]
    return Chart(title, _best_configuration_changes_caption(curves), figure, rows)


def _configuration_line_trace(key: ProbeCurveKey, points: Sequence[ProbeCurvePoint], position: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": key.configuration,
        "x": [point.at for point in points],
        "y": [point.loss.mean for point in points],
        "line": {
            "color": series_colour(position),
            "dash": DASHES[(position // len(COLOURS)) % len(DASHES)],
            "width": 1.6,
        },
        "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 7},
        "hovertemplate": f"{key.configuration} at %{{x}}: %{{y:.5f}}<extra></extra>",
    }


def _best_configuration_changes_caption(curves: Mapping[ProbeCurveKey, Sequence[ProbeCurvePoint]]) -> str:
    changes = find_best_row_changes({key: list(points) for key, points in curves.items()})
    if not changes:
        return "Means over seeds. The same configuration has the lowest loss everywhere."
    text = "; ".join(
        f"from {change.better_before.configuration} to {change.better_after.configuration} between "
        f"{change.between[0]} and {change.between[1]}"
        for change in changes
    )
    return f"Means over seeds. The configuration of lowest loss changes {text}."


def batch_dependence_chart(
    dependence: Mapping[RowKey, BatchDependence], arm: str, point: str, estimate: str
) -> Chart | None:
    """Share of predictions that change with the batch composition; None if it was not probed."""
    by_configuration = {
        key.configuration.code: row
        for key, row in dependence.items()
        if key.arm == arm and key.point == point and (key.estimate or "") in (estimate, "")
    }
    if not by_configuration:
        return None
    names = sorted(by_configuration, key=configuration_sort_key)
    traces = [
        _changed_predictions_bar_trace(
            0, "shuffled mini-batches", names, [by_configuration[name].flips for name in names]
        ),
        _changed_predictions_bar_trace(
            1, "mini-batches of one class", names, [by_configuration[name].skewed_flips for name in names]
        ),
    ]
    figure = {"data": traces, "layout": plotly_layout("", "predictions that change (%)", xaxis={"type": "category"})}
    rows = [
        {
            "configuration": name,
            "deterministic": by_configuration[name].deterministic,
            "flips": by_configuration[name].flips,
            "deviation": by_configuration[name].deviation,
            "loss": by_configuration[name].loss,
            "skewed_flips": by_configuration[name].skewed_flips,
            "skewed_loss": by_configuration[name].skewed_loss,
            "seeds": by_configuration[name].seeds,
        }
        for name in names
    ]
    caption = (
        "Share of examples whose predicted class changes with the other examples of their mini-batch. A configuration "
        "that takes both mini-batch statistics from the population is independent of the mini-batch."
    )
    return Chart("Dependence on the mini-batch", caption, figure, rows)


def _changed_predictions_bar_trace(
    position: int, name: str, configurations: Sequence[str], values: Sequence[float | None]
) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": list(configurations),
        "y": [None if value is None else 100 * value for value in values],
        "marker": {"color": series_colour(position)},
        "hovertemplate": f"%{{x}}, {name}: %{{y:.2f}} %<extra></extra>",
    }


def latency_chart(latencies: Sequence[MeasuredLatency], device: str | None, threads: int | None) -> Chart | None:
    """Time of a mini-batch under every configuration; None if it was not measured."""
    if not latencies:
        return None
    sizes = sorted({latency.batch_size for latency in latencies})
    traces = []
    for position, size in enumerate(sizes):
        of_size = sorted(
            (latency for latency in latencies if latency.batch_size == size),
            key=lambda latency: configuration_sort_key(latency.configuration),
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"mini-batch of {size}",
                "x": [latency.configuration for latency in of_size],
                "y": [1000 * latency.seconds for latency in of_size],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [1000 * (latency.upper - latency.seconds) for latency in of_size],
                    "arrayminus": [1000 * (latency.seconds - latency.lower) for latency in of_size],
                    "thickness": 1.2,
                },
                "marker": {"color": series_colour(position), "symbol": SYMBOLS[position], "size": 9},
                "hovertemplate": "%{x}: %{y:.3f} ms<extra></extra>",
            }
        )
    figure = {
        "data": traces,
        "layout": plotly_layout("", "milliseconds", xaxis={"type": "category"}, yaxis={"rangemode": "tozero"}),
    }
    rows = [
        {
            "configuration": latency.configuration,
            "batch_size": latency.batch_size,
            "seconds": latency.seconds,
            "lower_quartile": latency.lower,
            "upper_quartile": latency.upper,
            "examples_a_second": latency.examples_per_second,
            "passes": latency.passes,
        }
        for latency in latencies
    ]
    device_text = f"on {device} with {threads} threads" if device else ""
    caption = (
        f"Median time of a forward pass {device_text} with quartiles; passes of the configurations were interleaved."
    )
    return Chart("Inference time", caption, figure, rows)
