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
    list_best_row_changes,
)
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    axis_title,
    configuration_sort_key,
    plotly_layout,
    series_colour,
)
from bln_search.reports.charts.value_range import TOP, ValueRange, find_value_range

_AXES = {
    ProbeKind.SIZE: ("Loss at other batch sizes", "inference mini-batch size", "log"),
    ProbeKind.EPOCH: ("Loss after other epochs", "epoch of the weights", "linear"),
}


def probe_curve_chart(
    probes: Iterable[TrialProbe], kind: ProbeKind, arm: str, point: str, estimate: str, *, unit: str = "nats"
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
    all_points = [point for points in curves.values() for point in points]
    means = [point.loss.mean for point in all_points]
    has_correctness = any(point.accuracy is not None for point in all_points)
    in_range = find_value_range(means, default_margin(min(means), has_correctness=has_correctness))
    ordered = sorted(curves, key=lambda key: configuration_sort_key(key.configuration))
    traces = [_configuration_line_trace(key, curves[key], position, in_range) for position, key in enumerate(ordered)]
    ticks = sorted({point.at for point in all_points})
    figure = {
        "data": [*traces, *in_range.above_range_traces(((point.at, point.loss.mean) for point in all_points), TOP)],
        "layout": plotly_layout(
            axis,
            axis_title("mean validation loss", unit),
            xaxis={
                "type": scale,
                **({"tickvals": ticks, "ticktext": [str(at) for at in ticks]} if scale == "log" else {}),
            },
            yaxis={"range": in_range.axis_range},
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
            **({} if point.accuracy is None else {"accuracy": point.accuracy.mean}),
            "seeds": point.loss.n,
        }
        for key in ordered
        for point in curves[key]
    ]
    return Chart(title, _best_configuration_changes_caption(curves), figure, rows)


def _configuration_line_trace(
    key: ProbeCurveKey, points: Sequence[ProbeCurvePoint], position: int, in_range: ValueRange
) -> dict[str, Any]:
    """A line that ends at the end of the axis; its hover texts have the values beyond."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": key.configuration,
        "x": [point.at for point in points],
        "y": [in_range.position(point.loss.mean) for point in points],
        "customdata": [point.loss.mean for point in points],
        "line": {
            "color": series_colour(position),
            "dash": DASHES[(position // len(COLOURS)) % len(DASHES)],
            "width": 1.6,
        },
        "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 7},
        "hovertemplate": f"{key.configuration} at %{{x}}: %{{customdata:.5f}}<extra></extra>",
    }


def _best_configuration_changes_caption(curves: Mapping[ProbeCurveKey, Sequence[ProbeCurvePoint]]) -> str:
    changes = list_best_row_changes({key: list(points) for key, points in curves.items()})
    if not changes:
        return "Means over seeds. The same configuration has the lowest loss everywhere."
    text = "; ".join(
        f"from {change.better_before.configuration} to {change.better_after.configuration} between "
        f"{change.between[0]} and {change.between[1]}"
        for change in changes
    )
    return f"Means over seeds. The configuration of lowest loss changes {text}."


def batch_dependence_chart(
    dependence: Mapping[RowKey, BatchDependence], arm: str, point: str, estimate: str, *, unit: str = "nats"
) -> Chart | None:
    """Dependence of predicted classes on the batch composition, or of losses for a task without classes.

    Args:
        dependence: Of every row.
        arm: The arm to show.
        point: Its point.
        estimate: Its population estimate.
        unit: Unit of the loss; empty if it has none.

    Returns:
        None if the rows were not probed, or the losses in one composition only.
    """
    by_configuration = {
        key.configuration.code: row
        for key, row in dependence.items()
        if key.arm == arm and key.point == point and (key.estimate or "") in (estimate, "")
    }
    names = sorted(by_configuration, key=configuration_sort_key)
    rows = [by_configuration[name] for name in names]
    if any(row.flips is not None for row in rows):
        axis = "predictions that change (%)"
        measured = "Share of examples whose predicted class changes with the other examples of their mini-batch"
        traces = [
            _bar_trace(0, "shuffled mini-batches", names, [_percent(row.flips) for row in rows], "%"),
            _bar_trace(1, "mini-batches of one class", names, [_percent(row.skewed_flips) for row in rows], "%"),
        ]
    elif any(row.deviation is not None for row in rows):
        axis = axis_title("deviation of the loss", unit)
        measured = "Standard deviation of the loss of one example over mini-batches with other examples"
        traces = [_bar_trace(0, "shuffled mini-batches", names, [row.deviation for row in rows], unit)]
    else:
        return None
    caption = (
        f"{measured}. A configuration "
        "that takes both mini-batch statistics from the population is independent of the mini-batch."
    )
    figure = {"data": traces, "layout": plotly_layout("configuration", axis, xaxis={"type": "category"})}
    data = [_dependence_data_row(name, row) for name, row in zip(names, rows, strict=True)]
    return Chart("Dependence on the mini-batch", caption, figure, data)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _dependence_data_row(name: str, row: BatchDependence) -> dict[str, Any]:
    return {
        "configuration": name,
        "deterministic": row.deterministic,
        "flips": row.flips,
        "deviation": row.deviation,
        "loss": row.loss,
        "skewed_flips": row.skewed_flips,
        "skewed_loss": row.skewed_loss,
        "seeds": row.seeds,
    }


def _bar_trace(
    position: int, name: str, configurations: Sequence[str], values: Sequence[float | None], unit: str
) -> dict[str, Any]:
    number = "%{y:.2f}" if unit == "%" else "%{y:.4g}"
    return {
        "type": "bar",
        "name": name,
        "x": list(configurations),
        "y": list(values),
        "marker": {"color": series_colour(position)},
        "hovertemplate": f"%{{x}}, {name}: {number} {unit}<extra></extra>",
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
        "layout": plotly_layout(
            "configuration", "time of a mini-batch (ms)", xaxis={"type": "category"}, yaxis={"rangemode": "tozero"}
        ),
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
    device_text = f"on {device} with {threads} {'thread' if threads == 1 else 'threads'}" if device else ""
    caption = (
        f"Median time of a forward pass {device_text} with quartiles; passes of the configurations were interleaved."
    )
    return Chart("Inference time", caption, figure, rows)
