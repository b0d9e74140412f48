"""Charts of ranked rows: losses with intervals, losses by condition, values by mini-batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.reports.charts.chart import COLOURS, DASHES, SYMBOLS, Chart, plotly_layout, series_colour

_ROW_HEIGHT, _FRAME_HEIGHT = 22, 160
"""Pixels of a row, and of axes and margins."""


@dataclass(frozen=True)
class RowLoss:
    """Mean loss of a row with half the width of its 95 % confidence interval."""

    label: str
    loss: float
    half: float
    is_independent: bool
    is_recommended: bool = False


def row_losses_chart(rows: Sequence[RowLoss], *, split: str, scope: str) -> Chart:
    """Mean loss of each row with its confidence interval.

    Args:
        rows: Rows from the best one down.
        split: Split of the losses.
        scope: Over what the interval generalizes: `examples`, or `networks and examples`.
    """
    series = [
        ("independent of the mini-batch", [row for row in rows if row.is_independent], COLOURS[0], "circle"),
        ("depends on the mini-batch", [row for row in rows if not row.is_independent], COLOURS[1], "diamond"),
    ]
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [row.loss for row in members],
            "y": [row.label for row in members],
            "error_x": {"type": "data", "array": [row.half for row in members], "thickness": 1.5},
            "marker": {
                "color": colour,
                "symbol": symbol,
                "size": [12 if row.is_recommended else 8 for row in members],
            },
            "hovertemplate": "%{y}: %{x:.5f}<extra></extra>",
        }
        for name, members, colour, symbol in series
        if members
    ]
    figure = {
        "data": traces,
        "layout": plotly_layout(
            f"{split} loss",
            "",
            yaxis={
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [row.label for row in reversed(rows)],
            },
            height=_FRAME_HEIGHT + _ROW_HEIGHT * len(rows),
        ),
    }
    data = [
        {
            "row": row.label,
            "loss": row.loss,
            "low": row.loss - row.half,
            "high": row.loss + row.half,
            "independent": row.is_independent,
            "recommended": row.is_recommended,
        }
        for row in rows
    ]
    caption = (
        f"Mean loss of each row with its 95 % confidence interval over {scope}. The large mark is recommended. Rows "
        "are paired, so that two of them may differ significantly although their intervals overlap."
    )
    return Chart("Loss of each row", caption, figure, data)


def row_losses_by_condition_heat_map(
    labels: Sequence[str], conditions: Sequence[str], losses: Sequence[Sequence[float]]
) -> Chart:
    """Loss of each row in each condition, colored by its regret.

    Args:
        labels: Name of each row, from the best one down.
        conditions: Names of the conditions.
        losses: Mean loss by row and condition.
    """
    lowest = [min(column) for column in zip(*losses, strict=True)]
    regret = [[loss - low for loss, low in zip(line, lowest, strict=True)] for line in losses]
    figure = {
        "data": [
            {
                "type": "heatmap",
                "x": list(conditions),
                "y": list(labels),
                "z": regret,
                "text": [[f"{loss:.4f}" for loss in line] for line in losses],
                "texttemplate": "%{text}",
                "colorscale": "Viridis",
                "colorbar": {"title": {"text": "regret"}},
                "hovertemplate": "%{y}, %{x}: loss %{text}, regret %{z:.5f}<extra></extra>",
            }
        ],
        "layout": plotly_layout(
            "condition",
            "",
            xaxis={"type": "category"},
            yaxis={"type": "category", "autorange": "reversed"},
            height=_FRAME_HEIGHT + _ROW_HEIGHT * len(labels),
        ),
    }
    rows: list[dict[str, Any]] = [
        {"row": label, "condition": condition, "loss": loss, "regret": above}
        for label, line, above_line in zip(labels, losses, regret, strict=True)
        for condition, loss, above in zip(conditions, line, above_line, strict=True)
    ]
    caption = "Numbers: mean loss. Color: regret, the loss above the lowest loss of any row in that condition."
    return Chart("Loss of each row by condition", caption, figure, rows)


def criterion_values_by_batch_size_chart(
    batch_sizes: Sequence[int], values: Mapping[str, Sequence[float | None]], name: str
) -> Chart:
    """What is minimized by mini-batch size: one line for each way to select a row.

    Args:
        batch_sizes: Inference mini-batch sizes.
        values: Value at each size, by series; None where there is none.
        name: What is minimized.
    """
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": series,
            "x": list(batch_sizes),
            "y": list(line),
            "line": {"color": series_colour(position), "dash": DASHES[position % len(DASHES)]},
            "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 9},
            "hovertemplate": f"{series}, mini-batches of %{{x}}: %{{y:.5f}}<extra></extra>",
        }
        for position, (series, line) in enumerate(values.items())
    ]
    figure = {
        "data": traces,
        "layout": plotly_layout(
            "mini-batch size at inference",
            name,
            xaxis={"type": "log", "tickvals": list(batch_sizes), "ticktext": list(map(str, batch_sizes))},
        ),
    }
    rows = [
        {"series": series, "batch_size": size, "value": value}
        for series, line in values.items()
        for size, value in zip(batch_sizes, line, strict=True)
    ]
    return Chart(f"{name} by mini-batch size", "Lower is better.", figure, rows)
