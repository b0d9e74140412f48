"""Charts of the layers: mini-batch statistics against the population."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bln_search.core.configuration import Statistic
from bln_search.core.records import Drift
from bln_search.ranking.statistics.intervals import ConfidenceInterval, t_interval
from bln_search.reports.charts.chart import SYMBOLS, Chart, colour, layout

_REFERENCE_ESTIMATE = "frozen"


def drift_chart(by_seed: Mapping[int, Sequence[Drift]]) -> Chart | None:
    """Spread of mini-batches in every layer, and the shift of each estimate; None where nothing was recorded."""
    gathered: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for drifts in by_seed.values():
        for one in drifts:
            kept = gathered.setdefault((one.layer, one.statistic, one.estimate), {"spread": [], "shift": []})
            for measure in kept:
                value = getattr(one, measure)
                if value is not None:
                    kept[measure].append(value)
    if not gathered:
        return None
    layers = list(dict.fromkeys(layer for layer, _, _ in gathered))
    estimates = list(dict.fromkeys(estimate for _, _, estimate in gathered))
    first = _REFERENCE_ESTIMATE if _REFERENCE_ESTIMATE in estimates else estimates[0]
    traces = []
    for position, statistic in enumerate(Statistic):
        spreads = {
            layer: t_interval(kept["spread"])
            for (layer, name, estimate), kept in gathered.items()
            if name == statistic and estimate == first and kept["spread"]
        }
        if spreads:
            traces.append(_bars(statistic, spreads, colour(position)))
        for place, estimate in enumerate(one for one in estimates if one != first):
            shifts = {
                layer: statistics.fmean(kept["shift"])
                for (layer, name, other), kept in gathered.items()
                if name == statistic and other == estimate and kept["shift"]
            }
            if shifts:
                traces.append(_marks(statistic, estimate, shifts, colour(position), SYMBOLS[place + 1]))
    figure = {
        "data": traces,
        "layout": layout("layer", "in standard deviations of the layer", barmode="group", xaxis={"type": "category"}),
    }
    rows = [
        {
            "layer": layer,
            "statistic": statistic,
            "estimate": estimate,
            "spread": statistics.fmean(kept["spread"]) if kept["spread"] else None,
            "shift": statistics.fmean(kept["shift"]) if kept["shift"] else None,
            "seeds": len(kept["spread"]),
        }
        for (layer, statistic, estimate), kept in gathered.items()
    ]
    order = {layer: place for place, layer in enumerate(layers)}
    rows.sort(key=lambda row: order[str(row["layer"])])
    about = (
        f"Bars: spread of the statistic of training mini-batches around the {first} population, with 95 % confidence "
        "intervals over seeds. Marks: distance of another population estimate from it."
    )
    return Chart("Population and mini-batch statistics", about, figure, rows)


def _bars(statistic: str, spreads: Mapping[str, ConfidenceInterval], code: str) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "bar",
        "name": f"{statistic} spread",
        "x": list(spreads),
        "y": [one.mean for one in spreads.values()],
        "marker": {"color": code},
        "hovertemplate": f"%{{x}}: {statistic} spread %{{y:.4f}}<extra></extra>",
    }
    if all(one.half is not None for one in spreads.values()):
        trace["error_y"] = {"type": "data", "array": [one.half for one in spreads.values()], "thickness": 1}
    return trace


def _marks(statistic: str, estimate: str, shifts: Mapping[str, float], code: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{statistic} {estimate}",
        "x": list(shifts),
        "y": list(shifts.values()),
        "marker": {"color": code, "symbol": symbol, "size": 9, "line": {"width": 1, "color": "#808080"}},
        "hovertemplate": f"%{{x}}: {statistic} of {estimate} differs by %{{y:.4f}}<extra></extra>",
    }
