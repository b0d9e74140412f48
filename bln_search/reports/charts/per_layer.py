"""Chart of per-layer configurations: the effect of each switch in each layer."""

from __future__ import annotations

from typing import Any

from bln_search.core.method import Statistic
from bln_search.ranking.per_layer import LayerSwitchEffect, PerLayerResult
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.charts.chart import COLOURS, Chart, axis_title, plotly_layout
from bln_search.reports.charts.drawn_rows import category_axis
from bln_search.reports.charts.value_range import ABOVE, find_value_range
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
    lowest_loss = min((row.loss for row in result.rows), default=0.0)
    margin = default_margin(lowest_loss, has_correctness=result.has_accuracy)
    in_range = find_value_range((abs(effect.loss) for effect in result.effects), margin)
    largest = in_range.high or 1.0
    cells = [[effects.get(name) for name in switches] for effects in grid.values()]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": switches,
        "y": list(grid),
        "z": [[effect and max(-largest, min(largest, effect.loss)) for effect in row] for row in cells],
        "text": [[_cell_marks(effect, largest) for effect in row] for row in cells],
        "customdata": [[format_effect_with_interval(effect) if effect else "" for effect in row] for row in cells],
        "texttemplate": "%{text}",
        "textfont": {"size": 20},
        "colorscale": _SCALE,
        "zmin": -largest,
        "zmax": largest,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "colorbar": {
            "title": {"text": axis_title("effect on the loss", unit), "side": "right"},
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
            "",
            "layer",
            xaxis={"type": "category", "side": "top"},
            yaxis=category_axis(list(grid), autorange="reversed", dtick=1),
            margin={"l": 60, "r": 20, "t": 50, "b": 20},
            height=max(_MIN_HEIGHT, _ROW_HEIGHT * len(grid) + _MARGIN_HEIGHT),
        ),
    }
    rows = [_effect_data_row(effect) for effects in grid.values() for effect in effects.values()]
    caption = _effects_caption(result) + (f" {ABOVE}: beyond the color scale." if in_range.is_cut else "")
    return Chart("Effects of the switches by layer", caption, figure, rows)


def _cell_marks(effect: LayerSwitchEffect | None, largest: float) -> str:
    if effect is None:
        return ""
    return (ABOVE if abs(effect.loss) > largest else "") + (MARK if effect.excludes_zero else "")


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
