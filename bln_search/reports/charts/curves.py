"""Learning curves: one line per trial, and a band over the seeds of an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.statistics.intervals import t_interval
from bln_search.reports.charts.chart import Chart, clear, colour, layout

_AXIS_QUANTILE, _AXIS_FACTOR = 0.9, 2.0
"""The axis ends at this multiple of this quantile of all values, if any value is larger."""

_MAX_TICKED_EPOCHS = 10
"""Number of epochs up to which each has a tick."""

_KINDS = {"training": "dot", "validation": "solid"}


@dataclass(frozen=True)
class Metric:
    """A metric of an epoch: its key after `training_` and `validation_`, its name with unit, and the chart's title."""

    key: str
    name: str
    title: str

    def of(self, epoch: Mapping[str, Any], kind: str) -> float | None:
        """Value of an epoch, errors in per cent; None where it is missing."""
        value: float | None = epoch[f"{kind}_{self.key}"]
        if value is None:
            return None
        return 100 * (1 - value) if self.key == "accuracy" else value


LOSS = Metric("loss", "loss (nats)", "Losses by epoch")
ERROR = Metric("accuracy", "error (%)", "Errors by epoch")


@dataclass(frozen=True)
class TrialCurve:
    """Epochs of a trial, each with training_loss and validation_loss (nats), and both accuracies (fraction)."""

    arm: str
    point: str
    seed: int
    epochs: Sequence[Mapping[str, Any]]


def curves_chart(curves: Sequence[TrialCurve], of: int, metric: Metric = LOSS) -> Chart | None:
    """Training (dotted) and validation (solid) by epoch, one colour per arm. of: number of all trials."""
    curves = [one for one in curves if one.epochs]
    if not curves:
        return None
    groups: dict[str, list[TrialCurve]] = {}
    for one in curves:
        groups.setdefault(one.arm, []).append(one)
    traces: list[dict[str, Any]] = []
    for position, members in enumerate(groups.values()):
        alike = len({one.point for one in members}) == 1 and len(members) > 1
        for kind, dash in _KINDS.items():
            traces += _band(members, metric, kind, colour(position)) if alike else []
            traces += [
                _line(one, metric, kind, colour(position), dash, shown=index == 0) for index, one in enumerate(members)
            ]
    top = _top(curves, metric)
    axis: dict[str, Any] = {} if top is None else {"range": [0, top]}
    epochs: dict[str, Any] = {"rangemode": "tozero"}
    if max(len(one.epochs) for one in curves) <= _MAX_TICKED_EPOCHS:
        epochs["dtick"] = 1  # only whole epochs
    figure = {
        "data": traces,
        "layout": layout("epoch", metric.name, hovermode="closest", xaxis=epochs, yaxis=axis),
    }
    rows = [
        {"arm": one.arm, "parameters": one.point, "seed": one.seed, **epoch} for one in curves for epoch in one.epochs
    ]
    about = (
        "One line per trial, dotted on the training data, solid on the validation data; bands are 95 % confidence "
        "intervals of the mean over seeds."
    )
    if top is not None:
        about += f" Values above {top:.3g} are not shown."
    if len(curves) < of:
        about += f" {len(curves)} of {of:,} trials are drawn."
    return Chart(metric.title, about, figure, rows)


def _top(curves: Sequence[TrialCurve], metric: Metric) -> float | None:
    """Upper end of the axis where a few large values would flatten all curves; None where it is not needed."""
    found = [metric.of(epoch, kind) for one in curves for epoch in one.epochs for kind in _KINDS]
    values = sorted(value for value in found if value is not None)
    if not values:
        return None
    usual = _AXIS_FACTOR * values[int(len(values) * _AXIS_QUANTILE)]
    return usual if values[-1] > usual else None


def _line(one: TrialCurve, metric: Metric, kind: str, code: str, dash: str, *, shown: bool) -> dict[str, Any]:
    name = f"{one.arm}, {kind}"
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [epoch["epoch"] for epoch in one.epochs],
        "y": [metric.of(epoch, kind) for epoch in one.epochs],
        "name": name,
        "legendgroup": name,
        "showlegend": shown,
        "line": {"color": code, "dash": dash, "width": 1.3},
        "opacity": 0.8,
        "hovertemplate": f"{name}, {one.point} seed {one.seed}, epoch %{{x}}: %{{y:.4f}}<extra></extra>",
    }


def _band(members: Sequence[TrialCurve], metric: Metric, kind: str, code: str) -> list[dict[str, Any]]:
    """Confidence band of the mean over seeds, up to the last epoch that all seeds have."""
    values: dict[int, list[float]] = {}
    for one in members:
        for epoch in one.epochs:
            value = metric.of(epoch, kind)
            if value is not None:
                values.setdefault(epoch["epoch"], []).append(value)
    whole = {epoch: t_interval(found) for epoch, found in sorted(values.items()) if len(found) == len(members)}
    if not whole:
        return []
    epochs = list(whole)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": epochs + epochs[::-1],
            "y": [one.high for one in whole.values()] + [one.low for one in reversed(list(whole.values()))],
            "fill": "toself",
            "fillcolor": clear(code, 0.15),
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
