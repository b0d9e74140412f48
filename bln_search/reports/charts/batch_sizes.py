"""Chart of what is minimized by inference mini-batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    axis_title,
    colour_with_opacity,
    plotly_layout,
    series_colour,
)
from bln_search.reports.charts.drawn_rows import margin_text
from bln_search.reports.charts.value_range import TOP, ValueRange, find_value_range


def criterion_values_by_batch_size_chart(
    batch_sizes: Sequence[int],
    values: Mapping[str, Sequence[float | None]],
    *,
    name: str,
    unit: str,
    lowest: Sequence[float],
    margins: Sequence[float],
) -> Chart:
    """What is minimized by mini-batch size: one line for each way to select a row.

    Args:
        batch_sizes: Inference mini-batch sizes.
        values: Value at each size, by series; None where there is none.
        name: What is minimized.
        unit: Its unit; empty without one.
        lowest: The lowest value of any row at each size.
        margins: Difference at each size up to which rows are practically equal.
    """
    in_range = find_value_range([value for line in values.values() for value in line], max(margins))
    lines = [
        _line_trace(position, series, batch_sizes, line, in_range)
        for position, (series, line) in enumerate(values.items())
    ]
    points = [point for line in values.values() for point in zip(batch_sizes, line, strict=True)]
    figure = {
        "data": [
            *_margin_traces(batch_sizes, lowest, margins, unit),
            *lines,
            *in_range.above_range_traces(points, TOP),
        ],
        "layout": plotly_layout(
            "mini-batch size at inference (examples)",
            axis_title(name, unit),
            xaxis={"type": "log", "tickvals": list(batch_sizes), "ticktext": list(map(str, batch_sizes))},
            yaxis={"range": in_range.axis_range},
            showlegend=True,
        ),
    }
    rows = [
        {"series": series, "batch_size": size, "value": value}
        for series, line in values.items()
        for size, value in zip(batch_sizes, line, strict=True)
    ]
    return Chart(f"{name[0].upper()}{name[1:]} by mini-batch size", "Lower is better.", figure, rows)


def _line_trace(
    position: int, name: str, batch_sizes: Sequence[int], values: Sequence[float | None], in_range: ValueRange
) -> dict[str, Any]:
    """A line; its hover texts have the values that are beyond the axis."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(batch_sizes),
        "y": list(map(in_range.position, values)),
        "customdata": list(values),
        "line": {"color": series_colour(position), "dash": DASHES[position % len(DASHES)]},
        "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 9},
        "hovertemplate": f"{name}, mini-batches of %{{x}}: %{{customdata:.5f}}<extra></extra>",
    }


def _margin_traces(
    batch_sizes: Sequence[int], lowest: Sequence[float], margins: Sequence[float], unit: str
) -> list[dict[str, Any]]:
    """The region of values that are practically equal to the lowest one; none without a margin."""
    if not any(margins):
        return []
    upper = [value + margin for value, margin in zip(lowest, margins, strict=True)]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": margin_text(margins[0], unit) if len(set(margins)) == 1 else "practically equal to the lowest",
            "x": [*batch_sizes, *reversed(batch_sizes)],
            "y": [*lowest, *reversed(upper)],
            "fill": "toself",
            "fillcolor": colour_with_opacity(COLOURS[2], 0.2),
            "line": {"width": 0},
            "hoverinfo": "skip",
        }
    ]
