"""Charts of a search: importance of parameters, parallel coordinates, the front of loss and time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.statistics.importance import parameter_importance
from bln_search.reports.charts.chart import COLOURS, Chart, layout

_MAX_LINES = 150


@dataclass(frozen=True)
class PointResult:
    """A point of the space with its best mean loss; seconds: for a thousand examples, where that was measured."""

    arm: str
    parameters: Mapping[str, Any]
    loss: float
    seconds: float | None = None


def flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters one by one: those of a schedule, which have several values, under a name for each."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            inner = {key: one for key, one in flat(value).items() if key != "kind"}
            found |= {f"{name} {key.removeprefix('steps ')}": one for key, one in inner.items()}
        else:
            found[name] = value
    return found


def importance_chart(points: Sequence[PointResult]) -> Chart | None:
    """How much of the variation each parameter explains; None for too few points."""
    found = parameter_importance([one.parameters for one in points], [one.loss for one in points])
    if not found:
        return None
    figure = {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": list(found.values()),
                "y": list(found),
                "marker": {"color": COLOURS[0]},
                "hovertemplate": "%{y}: %{x:.1%}<extra></extra>",
            }
        ],
        "layout": layout(
            "share of the variance of the loss",
            "",
            xaxis={"range": [0, 1], "tickformat": ".0%"},
            yaxis={"type": "category", "autorange": "reversed"},
        ),
    }
    about = (
        f"Share of the variance that each parameter explains by itself over {len(points)} points (epsilon squared; "
        "numbers are grouped by quartiles)."
    )
    rows = [{"parameter": name, "share": share} for name, share in found.items()]
    return Chart("Parameter importance", about, figure, rows)


def parallel_chart(points: Sequence[PointResult]) -> Chart | None:
    """A line a point over all parameters, coloured by loss; the best so many points. None for fewer than two."""
    ordered = sorted(points, key=lambda one: one.loss)
    shown = ordered[:_MAX_LINES]
    names = sorted({name for one in shown for name in one.parameters})
    if len(shown) < 2 or not names:
        return None
    scales = {name: _Scale([one.parameters.get(name) for one in shown]) for name in names}
    losses = [one.loss for one in shown]
    scales["loss"] = _Scale(losses)
    axes = [*names, "loss"]
    low, high = losses[0], losses[-1]
    traces = []
    for one in reversed(shown):
        values = {**one.parameters, "loss": one.loss}
        share = 0.0 if high == low else (one.loss - low) / (high - low)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": axes,
                "y": [scales[name](values.get(name)) for name in axes],
                "line": {"color": _between(share), "width": 2.5 if one is shown[0] else 1},
                "opacity": 1 if one is shown[0] else 0.55,
                "text": [f"{name} {_written(values.get(name))}" for name in axes],
                "hovertemplate": "%{text}<extra></extra>",
                "showlegend": False,
            }
        )
    notes = [
        {"x": name, "y": y, "text": text, "showarrow": False, "xanchor": "left", "xshift": 4, "font": {"size": 11}}
        for name in axes
        for y, text in scales[name].ends
    ]
    figure = {
        "data": traces,
        "layout": layout(
            "",
            "",
            xaxis={"type": "category", "range": [-0.4, len(axes) - 0.3]},
            yaxis={"visible": False, "range": [-0.08, 1.08]},
            annotations=notes,
        ),
    }
    rows = [{"arm": one.arm, **one.parameters, "loss": one.loss} for one in ordered]
    about = "Every line is a point of the space; blue is the lowest loss, the thick line the best point."
    if len(shown) < len(points):
        about += f" The best {len(shown)} of {len(points):,} points are drawn."
    columns = sorted({name for row in rows for name in row})
    return Chart("Points of the search", about, figure, [{name: row.get(name) for name in columns} for row in rows])


class _Scale:
    """Where a value lies between the lowest and the highest; numbers far apart by their logarithm."""

    def __init__(self, values: Sequence[Any]) -> None:
        known = [value for value in values if value is not None]
        self.numbers = bool(known) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in known)
        if not self.numbers:
            self.names = sorted({str(one) for one in known})
            self.ends = [(self(name), name) for name in self.names]
            return
        low, high = min(known), max(known)
        self.log = low > 0 and high / low > 20
        self.low, self.high = self._number(low), self._number(high)
        self.ends = [(self(low), _written(low))] + ([(self(high), _written(high))] if high > low else [])

    def __call__(self, value: Any) -> float | None:
        if value is None:
            return None
        if not self.numbers:
            return self.names.index(str(value)) / max(1, len(self.names) - 1)
        return 0.5 if self.high == self.low else (self._number(value) - self.low) / (self.high - self.low)

    def _number(self, value: float) -> float:
        return math.log(value) if self.log else float(value)


def _between(share: float) -> str:
    """Blue for 0, orange for 1."""
    ends = [tuple(int(code[start : start + 2], 16) for start in (1, 3, 5)) for code in COLOURS[:2]]
    return "rgb(" + ",".join(str(round(a + (b - a) * share)) for a, b in zip(*ends, strict=True)) + ")"


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def pareto_chart(points: Sequence[PointResult]) -> Chart | None:
    """Loss against inference time, with the points that nothing beats in both; None where no time was measured."""
    timed = sorted((one for one in points if one.seconds is not None), key=lambda one: (one.seconds or 0.0, one.loss))
    if len(timed) < 2:
        return None
    front = [one for place, one in enumerate(timed) if all(one.loss < other.loss for other in timed[:place])]
    labels = [", ".join(f"{name} {_written(value)}" for name, value in one.parameters.items()) for one in timed]
    figure = {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": "points",
                "x": [one.seconds for one in timed],
                "y": [one.loss for one in timed],
                "text": labels,
                "marker": {"color": COLOURS[7], "size": 8, "symbol": "circle-open"},
                "hovertemplate": "%{text}<br>%{x:.4g} s, loss %{y:.5f}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "front",
                "x": [one.seconds for one in front],
                "y": [one.loss for one in front],
                "line": {"shape": "hv", "color": COLOURS[0]},
                "marker": {"size": 9},
                "hoverinfo": "skip",
            },
        ],
        "layout": layout("seconds per 1,000 examples", "loss"),
    }
    rows = [
        {"arm": one.arm, **one.parameters, "seconds": one.seconds, "loss": one.loss, "front": one in front}
        for one in timed
    ]
    about = "Pareto front: no measured point is both faster and better than the points on the line."
    return Chart("Loss and inference time", about, figure, rows)
