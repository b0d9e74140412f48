"""Losses while networks train: a line a trial, a band over the seeds of an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.interval import interval_of
from bln_search.reports.charts.chart import Chart, clear, colour, layout

_KINDS = {"training_loss": ("training", "dot"), "validation_loss": ("validation", "solid")}


@dataclass(frozen=True)
class TrialCurve:
    """The epochs of a trial, each with training_loss and validation_loss (nats)."""

    arm: str
    point: str
    seed: int
    epochs: Sequence[Mapping[str, Any]]


def curves_chart(curves: Sequence[TrialCurve], of: int) -> Chart | None:
    """Training (dotted) and validation loss (solid) by epoch, arms told apart; of: trials there are in all."""
    curves = [one for one in curves if one.epochs]
    if not curves:
        return None
    groups: dict[tuple[str, str], list[TrialCurve]] = {}
    for one in curves:
        groups.setdefault((one.arm, one.point), []).append(one)
    traces: list[dict[str, Any]] = []
    for position, (group, members) in enumerate(groups.items()):
        for metric, (kind, dash) in _KINDS.items():
            traces += _band(members, metric, colour(position)) if len(members) > 1 else []
            name = f"{' '.join(part for part in group if part)}, {kind}"
            traces += [
                _line(one, metric, name, colour(position), dash, shown=index == 0) for index, one in enumerate(members)
            ]
    figure = {
        "data": traces,
        "layout": layout("epoch", "loss (nats)", hovermode="closest", xaxis={"rangemode": "tozero"}),
    }
    rows = [
        {"arm": one.arm, "parameters": one.point, "seed": one.seed, **epoch} for one in curves for epoch in one.epochs
    ]
    about = "One line a trial, dotted on the training data, solid on the validation data; bands are 95 % intervals of "
    about += "the mean over seeds."
    if len(curves) < of:
        about += f" {len(curves)} of {of:,} trials are drawn."
    return Chart("Losses by epoch", about, figure, rows)


def _line(one: TrialCurve, metric: str, name: str, code: str, dash: str, *, shown: bool) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [epoch["epoch"] for epoch in one.epochs],
        "y": [epoch[metric] for epoch in one.epochs],
        "name": name,
        "legendgroup": name,
        "showlegend": shown,
        "line": {"color": code, "dash": dash, "width": 1.3},
        "opacity": 0.8,
        "hovertemplate": f"{name}, seed {one.seed}, epoch %{{x}}: %{{y:.4f}}<extra></extra>",
    }


def _band(members: Sequence[TrialCurve], metric: str, code: str) -> list[dict[str, Any]]:
    """Where the mean over seeds lies, as far as every seed has come."""
    values: dict[int, list[float]] = {}
    for one in members:
        for epoch in one.epochs:
            if epoch[metric] is not None:
                values.setdefault(epoch["epoch"], []).append(epoch[metric])
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
