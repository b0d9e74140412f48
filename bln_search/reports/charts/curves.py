"""Losses and errors while networks train: a line a trial, a band over the seeds of an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.statistics.intervals import interval_of
from bln_search.reports.charts.chart import Chart, clear, colour, layout

_USUAL, _BEYOND = 0.9, 2.0
"""An axis ends at so many times the loss below which this share of all losses lies, where any are above it."""

_EACH = 10
"""Up to so many epochs, each has its mark."""

_KINDS = {"training": "dot", "validation": "solid"}


@dataclass(frozen=True)
class Metric:
    """What is drawn of an epoch: its key behind `training_` and `validation_`, and its name with its unit."""

    key: str
    name: str
    title: str

    def of(self, epoch: Mapping[str, Any], kind: str) -> float | None:
        """The value of an epoch, errors as percentages; None where there is none."""
        value: float | None = epoch[f"{kind}_{self.key}"]
        if value is None:
            return None
        return 100 * (1 - value) if self.key == "accuracy" else value


LOSS = Metric("loss", "loss (nats)", "Losses by epoch")
ERROR = Metric("accuracy", "error (%)", "Errors by epoch")


@dataclass(frozen=True)
class TrialCurve:
    """The epochs of a trial, each with training_loss and validation_loss (nats), and both accuracies (fraction)."""

    arm: str
    point: str
    seed: int
    epochs: Sequence[Mapping[str, Any]]


def curves_chart(curves: Sequence[TrialCurve], of: int, metric: Metric = LOSS) -> Chart | None:
    """Training (dotted) and validation (solid) by epoch, arms told apart; of: trials there are in all."""
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
    if max(len(one.epochs) for one in curves) <= _EACH:
        epochs["dtick"] = 1  # there is no half an epoch
    figure = {
        "data": traces,
        "layout": layout("epoch", metric.name, hovermode="closest", xaxis=epochs, yaxis=axis),
    }
    rows = [
        {"arm": one.arm, "parameters": one.point, "seed": one.seed, **epoch} for one in curves for epoch in one.epochs
    ]
    about = "One line a trial, dotted on the training data, solid on the validation data; bands are 95 % intervals of "
    about += "the mean over seeds."
    if top is not None:
        about += f" Values above {top:.3g} are outside."
    if len(curves) < of:
        about += f" {len(curves)} of {of:,} trials are drawn."
    return Chart(metric.title, about, figure, rows)


def _top(curves: Sequence[TrialCurve], metric: Metric) -> float | None:
    """Where the axis ends so that a few trials that went wrong do not flatten all others; None where none did."""
    found = [metric.of(epoch, kind) for one in curves for epoch in one.epochs for kind in _KINDS]
    values = sorted(value for value in found if value is not None)
    if not values:
        return None
    usual = _BEYOND * values[int(len(values) * _USUAL)]
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
    """Where the mean over seeds lies, as far as every seed has come."""
    values: dict[int, list[float]] = {}
    for one in members:
        for epoch in one.epochs:
            value = metric.of(epoch, kind)
            if value is not None:
                values.setdefault(epoch["epoch"], []).append(value)
    whole = {epoch: interval_of(found) for epoch, found in sorted(values.items()) if len(found) == len(members)}
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
