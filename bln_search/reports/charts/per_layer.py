"""Chart of per-layer configurations: the effect of each switch in each layer."""

from __future__ import annotations

from typing import Any

from bln_search.core.method import Statistic
from bln_search.ranking.per_layer import LayerSwitchEffect, PerLayerResult
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.charts.chart import COLOURS, Chart, plotly_layout
from bln_search.reports.formatting import format_signed_interval
from bln_search.reports.sentences.per_layer import switch_effects_definition

MARK = "•"
"""Marks an effect whose confidence interval excludes 0."""

_SCALE = [[0.0, COLOURS[0]], [0.5, "#f5f7f9"], [1.0, COLOURS[1]]]
_MIN_HEIGHT, _ROW_HEIGHT, _MARGIN_HEIGHT = 300, 22, 110
"""Pixels."""


def switchable_statistics(result: PerLayerResult) -> list[str]:
    """The statistics that at least one choice can switch, in the order of `Statistic`."""
    switchable = {effect.statistic for effect in result.effects}
    return [statistic.value for statistic in Statistic if statistic.value in switchable]


def effects_by_choice_and_statistic(result: PerLayerResult) -> dict[str, dict[str, LayerSwitchEffect]]:
    """Effects by choice, then by statistic; choices without effects are omitted."""
    grid: dict[str, dict[str, LayerSwitchEffect]] = {choice.name: {} for choice in result.choices}
    for effect in result.effects:
        grid.setdefault(effect.choice, {})[effect.statistic] = effect
    return {choice: effects for choice, effects in grid.items() if effects}


def format_effect_with_interval(effect: LayerSwitchEffect) -> str:
    """An effect with its interval."""
    return format_signed_interval(ConfidenceInterval(effect.loss, effect.half, effect.networks))


def layer_switch_effects_heat_map(result: PerLayerResult) -> Chart | None:
    """Heat map of the effects: choices as rows, switches as columns; None without effects."""
    grid, switches = effects_by_choice_and_statistic(result), switchable_statistics(result)
    if not grid:
        return None
    unit = result.loss.unit
    largest = max(abs(effect.loss) for effect in result.effects) or 1.0
    cells = [[effects.get(name) for name in switches] for effects in grid.values()]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": switches,
        "y": list(grid),
        "z": [[None if effect is None else effect.loss for effect in row] for row in cells],
        "text": [[MARK if effect and effect.excludes_zero else "" for effect in row] for row in cells],
        "customdata": [[format_effect_with_interval(effect) if effect else "" for effect in row] for row in cells],
        "texttemplate": "%{text}",
        "textfont": {"size": 24},
        "colorscale": _SCALE,
        "zmin": -largest,
        "zmax": largest,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "colorbar": {
            "title": {"text": unit or "loss", "side": "right"},
            "lenmode": "pixels",
            "len": 220,
            "y": 1,
            "yanchor": "top",
        },
        "hovertemplate": f"%{{y}}, %{{x}}: %{{customdata}} {unit}<extra></extra>",
    }
    figure = {
        "data": [trace],
        "layout": plotly_layout(
            xaxis={"type": "category", "side": "top"},
            yaxis={"type": "category", "autorange": "reversed", "dtick": 1},
            margin={"l": 60, "r": 20, "t": 50, "b": 20},
            height=max(_MIN_HEIGHT, _ROW_HEIGHT * len(grid) + _MARGIN_HEIGHT),
        ),
    }
    rows = [_effect_data_row(effect) for effects in grid.values() for effect in effects.values()]
    return Chart("Effects of the switches by layer", _effects_caption(result), figure, rows)


def _effects_caption(result: PerLayerResult) -> str:
    has_intervals = any(effect.half is not None for effect in result.effects)
    return f"{switch_effects_definition(result)}. Blue: taking the statistic from the population (T) lowers it. " + (
        f"{MARK}: the 95 % confidence interval over networks excludes 0."
        if has_intervals
        else "With one network there are no confidence intervals."
    )


def _effect_data_row(effect: LayerSwitchEffect) -> dict[str, Any]:
    interval = ConfidenceInterval(effect.loss, effect.half, effect.networks)
    return {
        "choice": effect.choice,
        "statistic": effect.statistic,
        "loss": effect.loss,
        "low": interval.low,
        "high": interval.high,
        "excludes zero": effect.excludes_zero,
        "networks": effect.networks,
    }
