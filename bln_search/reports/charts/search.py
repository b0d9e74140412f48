"""Charts of a search: importance of parameters, parallel coordinates, the front of loss and time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.statistics.importance import importance_by_parameter
from bln_search.reports.charts.chart import COLOURS, Chart, axis_title, plotly_layout
from bln_search.reports.charts.value_range import TOP, find_value_range
from bln_search.specs.sections.point_labels import find_distinct_value_digits
from bln_search.specs.sections.space import DIGITS, format_parameter_value

_MAX_LINES = 150


@dataclass(frozen=True)
class SearchPointResult:
    """A point of the search space.

    Attributes:
        arm: The arm.
        parameters: The parameters, flattened.
        loss: Lowest mean loss of its rows (nats); of a point that has search trials only, the mean of their objective.
        seconds: Inference time of 1,000 examples; None if it was not measured.
    """

    arm: str
    parameters: Mapping[str, Any]
    loss: float
    seconds: float | None = None


def flatten_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the parameters: each value of a schedule gets a name of its own."""
    flattened: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            inner = {key: inner_value for key, inner_value in flatten_parameters(value).items() if key != "kind"}
            flattened |= {f"{name} {key.removeprefix('steps ')}": inner_value for key, inner_value in inner.items()}
        else:
            flattened[name] = value
    return flattened


def parameter_importance_chart(points: Sequence[SearchPointResult], measure: str = "loss") -> Chart | None:
    """Share of the variance that each parameter explains; None for too few points. measure: Name of their values."""
    importance = importance_by_parameter([point.parameters for point in points], [point.loss for point in points])
    if not importance:
        return None
    figure = {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": list(importance.values()),
                "y": list(importance),
                "marker": {"color": COLOURS[0]},
                "hovertemplate": "%{y}: %{x:.1%}<extra></extra>",
            }
        ],
        "layout": plotly_layout(
            f"share of the variance of the {measure}",
            "",
            xaxis={"range": [0, 1], "tickformat": ".0%"},
            yaxis={"type": "category", "autorange": "reversed"},
        ),
    }
    caption = (
        f"Share of the variance of the {measure} that each parameter explains by itself over {len(points)} points "
        "(epsilon squared; "
        "numbers are grouped by quartiles)."
    )
    rows = [{"parameter": name, "share": share} for name, share in importance.items()]
    return Chart("Parameter importance", caption, figure, rows)


def parallel_coordinates_chart(points: Sequence[SearchPointResult], measure: str = "loss") -> Chart | None:
    """Parallel coordinates: a line for each of the best points, coloured by loss; None for fewer than two points.

    Args:
        points: The points.
        measure: Name of their losses.
    """
    ordered = sorted(points, key=lambda point: point.loss)
    drawn = ordered[:_MAX_LINES]
    names = sorted({name for point in drawn for name in point.parameters})
    if len(drawn) < 2 or not names:
        return None
    scales = {name: _ParallelAxisScale([point.parameters.get(name) for point in drawn]) for name in names}
    losses = [point.loss for point in drawn]
    scales[measure] = _ParallelAxisScale(losses)
    axes = [*names, measure]
    digits = _digits_by_parameter(drawn)
    traces = []
    for point in reversed(drawn):
        values = {**point.parameters, measure: point.loss}
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": axes,
                "y": [scales[name](values.get(name)) for name in axes],
                "line": {
                    "color": colour_between_blue_and_orange(scales[measure](point.loss) or 0.0),
                    "width": 2.5 if point is drawn[0] else 1,
                },
                "opacity": 1 if point is drawn[0] else 0.55,
                "text": [f"{name} {_format_value(values.get(name), digits.get(name, DIGITS))}" for name in axes],
                "hovertemplate": "%{text}<extra></extra>",
                "showlegend": False,
            }
        )
    annotations = [
        {"x": name, "y": y, "text": text, "showarrow": False, "xanchor": "left", "xshift": 4, "font": {"size": 11}}
        for name in axes
        for y, text in scales[name].end_labels
    ]
    figure = {
        "data": traces,
        "layout": plotly_layout(
            "",
            "",
            xaxis={"type": "category", "range": [-0.4, len(axes) - 0.3]},
            yaxis={"visible": False, "range": [-0.08, 1.08]},
            annotations=annotations,
        ),
    }
    rows = [{"arm": point.arm, **point.parameters, measure: point.loss} for point in ordered]
    caption = f"Every line is a point of the space; blue is the lowest {measure}, the thick line the best point."
    if len(drawn) < len(points):
        caption += f" The best {len(drawn)} of {len(points):,} points are drawn."
    columns = sorted({name for row in rows for name in row})
    return Chart("Points of the search", caption, figure, [{name: row.get(name) for name in columns} for row in rows])


class _ParallelAxisScale:
    """Position of a value between the lowest (0) and the highest (1); logarithmic for numbers that are far apart."""

    def __init__(self, values: Sequence[Any]) -> None:
        present = [value for value in values if value is not None]
        self.is_numeric = bool(present) and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in present
        )
        if not self.is_numeric:
            self.names = sorted({str(value) for value in present})
            self.end_labels = [(self(name), name) for name in self.names]
            return
        low, high = min(present), max(present)
        self.is_logarithmic = low > 0 and high / low > 20
        self.low, self.high = self._log_or_linear_value(low), self._log_or_linear_value(high)
        digits = find_distinct_value_digits((low, high))
        self.end_labels = [(self(low), _format_value(low, digits))] + (
            [(self(high), _format_value(high, digits))] if high > low else []
        )

    def __call__(self, value: Any) -> float | None:
        if value is None:
            return None
        if not self.is_numeric:
            return self.names.index(str(value)) / max(1, len(self.names) - 1)
        return 0.5 if self.high == self.low else (self._log_or_linear_value(value) - self.low) / (self.high - self.low)

    def _log_or_linear_value(self, value: float) -> float:
        return math.log(value) if self.is_logarithmic else float(value)


def colour_between_blue_and_orange(share: float) -> str:
    """Colour between blue (0) and orange (1)."""
    ends = [tuple(int(code[start : start + 2], 16) for start in (1, 3, 5)) for code in COLOURS[:2]]
    return "rgb(" + ",".join(str(round(a + (b - a) * share)) for a, b in zip(*ends, strict=True)) + ")"


def _format_value(value: Any, digits: int = DIGITS) -> str:
    return format_parameter_value(value, digits) if isinstance(value, float) else str(value)


def _digits_by_parameter(points: Sequence[SearchPointResult]) -> dict[str, int]:
    """Significant digits at which the values of each parameter differ."""
    names = {name for point in points for name in point.parameters}
    return {name: find_distinct_value_digits(point.parameters.get(name) for point in points) for name in names}


def loss_and_time_pareto_chart(points: Sequence[SearchPointResult], *, unit: str = "nats") -> Chart | None:
    """Loss against inference time, with the Pareto front; None for fewer than two points with a time.

    Args:
        points: The points.
        unit: Unit of the loss; empty for a loss without one.
    """
    timed_points = sorted(
        (point for point in points if point.seconds is not None), key=lambda point: (point.seconds or 0.0, point.loss)
    )
    if len(timed_points) < 2:
        return None
    front = [
        point
        for index, point in enumerate(timed_points)
        if all(point.loss < other.loss for other in timed_points[:index])
    ]
    in_range = find_value_range(point.loss for point in timed_points)
    shown = [point for point in timed_points if in_range.contains(point.loss)]
    digits = _digits_by_parameter(timed_points)
    labels = [
        ", ".join(f"{name} {_format_value(value, digits[name])}" for name, value in point.parameters.items())
        for point in shown
    ]
    figure = {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": "points",
                "x": [point.seconds for point in shown],
                "y": [point.loss for point in shown],
                "text": labels,
                "marker": {"color": COLOURS[7], "size": 8, "symbol": "circle-open"},
                "hovertemplate": "%{text}<br>%{x:.4g} s, loss %{y:.5f}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "front",
                "x": [point.seconds for point in front],
                "y": [in_range.position(point.loss) for point in front],
                "line": {"shape": "hv", "color": COLOURS[0]},
                "marker": {"size": 9},
                "hoverinfo": "skip",
            },
            *in_range.above_range_traces(((point.seconds, point.loss) for point in timed_points), TOP),
        ],
        "layout": plotly_layout(
            "inference time of 1,000 examples (s)",
            axis_title("lowest mean loss", unit),
            yaxis={"range": in_range.axis_range},
        ),
    }
    rows = [
        {"arm": point.arm, **point.parameters, "seconds": point.seconds, "loss": point.loss, "front": point in front}
        for point in timed_points
    ]
    caption = "Pareto front: no measured point is both faster and better than the points on the line."
    return Chart("Loss and inference time", caption, figure, rows)
