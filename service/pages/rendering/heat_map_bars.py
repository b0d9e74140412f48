"""Heat maps of the pages, drawn as bars.

The small script of the pages draws scatter and bar charts only; the part of plotly.js with heat maps is a quarter
larger. A cell of a heat map becomes a bar of height 1 that starts at the number of its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_Scale = Sequence[tuple[float, str]]
_VIRIDIS: _Scale = tuple(
    (position / 9, code)
    for position, code in enumerate(
        "#440154 #482878 #3e4989 #31688e #26828e #1f9e89 #35b779 #6ece58 #b5de2b #fde725".split()  # noqa: SIM905
    )
)
_HATCHED = {
    "color": "rgba(128,128,128,0.12)",
    "pattern": {"shape": "/", "fgcolor": "rgba(128,128,128,0.7)", "size": 7},
    "line": {"width": 0},
}
_BRIGHT = 0.179
"""Luminance from which black has more contrast than white."""


def replace_heat_map_by_bars(figure: dict[str, Any]) -> dict[str, Any]:
    """Return a figure with bars instead of its heat maps, which share their cells; any other figure as it is.

    The bars of a heat map without a color scale are hatched: its cells have no value.
    """
    if not figure["data"] or any(trace["type"] != "heatmap" for trace in figure["data"]):
        return figure
    trace = figure["data"][0]
    columns, rows, layout = list(trace["x"]), list(trace["y"]), figure["layout"]
    shown = {"autorange": False, "showgrid": False, "zeroline": False}
    across = {"categoryorder": "array", "categoryarray": columns, "range": [-0.5, len(columns) - 0.5]}
    down = {
        "type": "linear",
        "range": [len(rows), 0],
        "tickmode": "array",
        "tickvals": [number + 0.5 for number in range(len(rows))],
        "ticktext": layout["yaxis"].get("ticktext", rows),
    }
    layout = layout | {
        "xaxis": {**layout["xaxis"], **shown, **across},
        "yaxis": {**layout["yaxis"], **shown, **down},
        "annotations": [{**label, "y": rows.index(label["y"]) + 0.5} for label in layout.get("annotations", ())],
        "bargap": 0,
        "barmode": "overlay",
    }
    return {**figure, "data": [_bar_trace_of_heat_map(trace) for trace in figure["data"]], "layout": layout}


def _bar_trace_of_heat_map(trace: dict[str, Any]) -> dict[str, Any]:
    places = [
        (row, column) for row, line in enumerate(trace["z"]) for column, value in enumerate(line) if value is not None
    ]
    if not places:
        return {"type": "bar", "x": [], "y": []}
    values = _heat_map_cell_values(trace, "z", places)
    template = trace["hovertemplate"].replace("%{customdata}", "%{customdata[2]}")
    bars = {
        "type": "bar",
        "x": [trace["x"][column] for _, column in places],
        "y": [1] * len(places),
        "base": [row for row, _ in places],
        "customdata": [
            [
                trace["y"][row],
                *_heat_map_cell_values(trace, "z", [(row, column)]),
                *_heat_map_cell_values(trace, "customdata", [(row, column)]),
            ]
            for row, column in places
        ],
        "marker": _bar_marker(trace, values) if trace.get("showscale", True) else _HATCHED,
        "hovertemplate": template.replace("%{y}", "%{customdata[0]}").replace("%{z", "%{customdata[1]"),
    }
    if "text" not in trace:
        return bars
    scale = _VIRIDIS if trace["colorscale"] == "Viridis" else trace["colorscale"]
    low, high = _color_range(trace, values)
    colors = [_contrasting_text_color((value - low) / (high - low or 1.0), scale) for value in values]
    return bars | {
        "text": _heat_map_cell_values(trace, "text", places),
        "texttemplate": trace["texttemplate"],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "insidetextfont": {**trace.get("textfont", {}), "color": colors},
    }


def _color_range(trace: dict[str, Any], values: Sequence[float]) -> tuple[float, float]:
    return trace.get("zmin", min(values)), trace.get("zmax", max(values))


def _bar_marker(trace: dict[str, Any], values: Sequence[float]) -> dict[str, Any]:
    low, high = _color_range(trace, values)
    return {
        "color": values,
        "cmin": low,
        "cmax": high,
        "colorscale": trace["colorscale"],
        "showscale": True,
        "colorbar": trace["colorbar"],
        "line": {"width": trace.get("xgap", 0), "color": "rgba(0,0,0,0)"},
    }


def _heat_map_cell_values(trace: dict[str, Any], name: str, places: Sequence[tuple[int, int]]) -> list[Any]:
    return [trace[name][row][column] for row, column in places] if name in trace else []


def _contrasting_text_color(fraction: float, scale: _Scale) -> str:
    """Return black or white, whichever has more contrast with the color at a fraction of a scale."""
    for (start, before), (end, after) in pairwise(scale):
        if fraction <= end:
            weight = (fraction - start) / (end - start)
            mixed = (
                (1 - weight) * low + weight * high
                for low, high in zip(_hex_to_rgb(before), _hex_to_rgb(after), strict=True)
            )
            return "black" if _luminance(*mixed) > _BRIGHT else "white"
    return "black"


def _hex_to_rgb(code: str) -> tuple[float, ...]:
    return tuple(int(code[start : start + 2], 16) / 255 for start in (1, 3, 5))


def _luminance(*channels: float) -> float:
    """Relative luminance of a color in sRGB (WCAG 2.2)."""
    linear = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
