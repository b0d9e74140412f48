"""The chart of per-layer configurations: what each switch does in each layer."""

from __future__ import annotations

from typing import Any

from bln_search.core.configuration import Statistic
from bln_search.ranking.per_layer import LayerSwitchEffect, PerLayerResult
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.charts.chart import COLOURS, Chart, layout
from bln_search.reports.formatting import signed
from bln_search.reports.sentences.per_layer import effects_heading

MARK = "•"
"""Marks an effect whose confidence interval excludes 0."""

_SCALE = [[0.0, COLOURS[0]], [0.5, "#f5f7f9"], [1.0, COLOURS[1]]]
_MIN_HEIGHT, _ROW_HEIGHT, _MARGIN_HEIGHT = 300, 22, 110
"""Pixels."""


def switches_of(result: PerLayerResult) -> list[str]:
    """The statistics that some choice can switch, in their usual order."""
    found = {one.statistic for one in result.effects}
    return [one.value for one in Statistic if one.value in found]


def effect_grid(result: PerLayerResult) -> dict[str, dict[str, LayerSwitchEffect]]:
    """Effects by choice, then by statistic; a choice without any is left out."""
    grid: dict[str, dict[str, LayerSwitchEffect]] = {choice.name: {} for choice in result.choices}
    for one in result.effects:
        grid.setdefault(one.choice, {})[one.statistic] = one
    return {choice: effects for choice, effects in grid.items() if effects}


def format_effect(one: LayerSwitchEffect) -> str:
    """An effect with its interval."""
    return signed(ConfidenceInterval(one.loss, one.half, one.networks))


def layer_switches_chart(result: PerLayerResult) -> Chart | None:
    """Choices downwards, switches across, around zero; None where no effect is known."""
    grid, switches = effect_grid(result), switches_of(result)
    if not grid:
        return None
    most = max(abs(one.loss) for one in result.effects) or 1.0
    cells = [[effects.get(name) for name in switches] for effects in grid.values()]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": switches,
        "y": list(grid),
        "z": [[None if one is None else one.loss for one in row] for row in cells],
        "text": [[MARK if one and one.excludes_zero else "" for one in row] for row in cells],
        "customdata": [[format_effect(one) if one else "" for one in row] for row in cells],
        "texttemplate": "%{text}",
        "textfont": {"size": 24},
        "colorscale": _SCALE,
        "zmin": -most,
        "zmax": most,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "colorbar": {"title": {"text": "nats"}, "lenmode": "pixels", "len": 220, "y": 1, "yanchor": "top"},
        "hovertemplate": "%{y}, %{x}: %{customdata} nats<extra></extra>",
    }
    figure = {
        "data": [trace],
        "layout": layout(
            xaxis={"type": "category", "side": "top"},
            yaxis={"type": "category", "autorange": "reversed", "dtick": 1},
            margin={"l": 60, "r": 20, "t": 50, "b": 20},
            height=max(_MIN_HEIGHT, _ROW_HEIGHT * len(grid) + _MARGIN_HEIGHT),
        ),
    }
    rows = [_row(one) for effects in grid.values() for one in effects.values()]
    return Chart("Effects of the switches by layer", _about(result), figure, rows)


def _about(result: PerLayerResult) -> str:
    known = any(one.half is not None for one in result.effects)
    return f"In nats: {effects_heading(result)}. Blue: taking the statistic from the population (T) lowers it. " + (
        f"{MARK}: the 95 % confidence interval over networks excludes 0."
        if known
        else "With one network there are no confidence intervals."
    )


def _row(one: LayerSwitchEffect) -> dict[str, Any]:
    interval = ConfidenceInterval(one.loss, one.half, one.networks)
    return {
        "choice": one.choice,
        "statistic": one.statistic,
        "loss": one.loss,
        "low": interval.low,
        "high": interval.high,
        "excludes zero": one.excludes_zero,
        "networks": one.networks,
    }
