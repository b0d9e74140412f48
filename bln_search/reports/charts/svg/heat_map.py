"""Heat maps of Plotly as SVG: cells with their texts, and the scale of the colors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from bln_search.reports.charts.svg.elements import LINE, draw_text, text_width
from bln_search.reports.charts.svg.traces import Place

_VIRIDIS = (
    "#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
)  # fmt: skip
"""Smith & van der Walt 2015, at ten equal steps."""

BAR_HEIGHT = 56.0
"""Pixels of the scale below a heat map, with its labels."""

_BAR, _BAR_WIDTH, _BAR_STEPS = 10.0, 260.0, 40


def draw_cells(trace: Mapping[str, Any], place: Place, cell: tuple[float, float]) -> Iterator[str]:
    """Yield the cells; those without a value are left out. cell: Width and height of one in pixels."""
    width, height = cell
    scale = _parse_scale(trace["colorscale"])
    for name, values, texts, hovers in zip(trace["y"], trace["z"], trace["text"], trace["customdata"], strict=True):
        for column, value, text, hover in zip(trace["x"], values, texts, hovers, strict=True):
            middle = place(column, name)
            if value is None or middle is None:
                continue
            colour = _mix(scale, (value - trace["zmin"]) / ((trace["zmax"] - trace["zmin"]) or 1.0))
            yield (
                f'<rect x="{middle[0] - width / 2 + 0.5:.1f}" y="{middle[1] - height / 2 + 0.5:.1f}" '
                f'width="{width - 1:.1f}" height="{height - 1:.1f}" fill="{_hex(colour)}">'
                f"<title>{escape(f'{name}, {column}: {hover}')}</title></rect>"
            )
            if text and text_width(text) <= width:
                ink = "#000000" if _luminance(colour) > 0.18 else "#ffffff"
                yield draw_text(middle[0], middle[1] + 4, text, anchor="middle", fill=ink)


def draw_colour_bar(trace: Mapping[str, Any], left: float, top: float) -> Iterator[str]:
    """Yield the scale of the colors with its ticks and its title."""
    scale, bar = _parse_scale(trace["colorscale"]), trace["colorbar"]
    low, high = trace["zmin"], trace["zmax"]
    step = _BAR_WIDTH / _BAR_STEPS
    for index in range(_BAR_STEPS):
        colour = _hex(_mix(scale, index / (_BAR_STEPS - 1)))
        place = f'x="{left + index * step:.1f}" y="{top:.1f}"'
        yield f'<rect {place} width="{step + 0.5:.1f}" height="{_BAR}" fill="{colour}"/>'
    values = bar.get("tickvals", [low, (low + high) / 2, high])
    labels = bar.get("ticktext", [f"{value:.2g}" for value in values])
    for value, label in zip(values, labels, strict=True):
        x = left + _BAR_WIDTH * (value - low) / ((high - low) or 1.0)
        yield draw_text(x, top + _BAR + LINE - 2, label, anchor="middle")
    yield draw_text(left + _BAR_WIDTH / 2, top + _BAR + 2 * LINE, bar["title"]["text"], anchor="middle")


Colour = tuple[float, float, float]


def _parse_scale(scale: str | Sequence[Sequence[Any]]) -> list[tuple[float, Colour]]:
    """Position and color of each step."""
    if isinstance(scale, str):
        return [(index / (len(_VIRIDIS) - 1), _parse_colour(code)) for index, code in enumerate(_VIRIDIS)]
    return [(float(step[0]), _parse_colour(step[1])) for step in scale]


def _parse_colour(code: str) -> Colour:
    return int(code[1:3], 16) / 255, int(code[3:5], 16) / 255, int(code[5:7], 16) / 255


def _mix(scale: Sequence[tuple[float, Colour]], part: float) -> Colour:
    """The color at a part of the scale."""
    part = min(1.0, max(0.0, part))
    for (low, first), (high, second) in pairwise(scale):
        if part <= high:
            share = (part - low) / (high - low)
            red, green, blue = (a + (b - a) * share for a, b in zip(first, second, strict=True))
            return red, green, blue
    return scale[-1][1]


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour)


def _luminance(colour: Colour) -> float:
    """Relative luminance: which of black and white text has more contrast."""
    red, green, blue = colour
    return float(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2)
