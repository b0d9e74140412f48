"""Charts of ranked rows: losses with intervals, losses by condition, values by mini-batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd
from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    make_labels_unique,
    plotly_layout,
    series_colour,
)
from bln_search.reports.metric_columns import find_metric_value
from bln_search.specs.sections.condition import CLEAN

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


_MAX_ROWS = 8


def condition_losses_chart(board: Leaderboard, *, unit: str = "nats", ranking: str = CLEAN) -> Chart | None:
    """A line for each of the first rows over clean images and conditions; None for a study without conditions.

    Args:
        board: The leaderboard.
        unit: Unit of the loss; empty for a loss without one.
        ranking: Name of the condition that ranks the rows.
    """
    ranked = [row for row in board.rows if row.rank is not None and row.conditions is not None][:_MAX_ROWS]
    if not ranked:
        return None
    labels = make_labels_unique(_row_label(row, ranked) for row in ranked)
    names = (ranking, *board.condition_names)
    traces, rows = [], []
    for position, (label, row) in enumerate(zip(labels, ranked, strict=True)):
        losses = [find_metric_value(row, board.ranked_on, "loss", "" if name == ranking else name) for name in names]
        traces.append(_row_line_trace(position, label, names, losses))
        rows += [
            {"row": label, "condition": name, "loss": loss.mean, "deviation": loss.deviation}
            for name, loss in zip(names, losses, strict=True)
            if loss is not None
        ]
    title = f"{board.ranked_on} loss{f' ({unit})' if unit else ''}"
    figure = {"data": traces, "layout": plotly_layout("", title, xaxis={"type": "category"})}
    where = "on clean images" if ranking == CLEAN else f"under {ranking}, which ranks,"
    caption = (
        f"Mean {board.ranked_on} loss over seeds of the first {len(ranked)} rows, {where} and under each condition; "
        "bars are one standard deviation over seeds."
    )
    return Chart("Loss by condition", caption, figure, rows)


def _row_label(row: LeaderboardRow, rows: list[LeaderboardRow]) -> str:
    """Arm, configuration and estimate, and the batch size where the rows have several."""
    has_sizes = len({other.batch_size for other in rows}) > 1
    return row.key.arm_configuration_and_estimate_label + (f", batch {row.batch_size}" if has_sizes else "")


def _row_line_trace(position: int, label: str, names: tuple[str, ...], losses: list[MeanStd | None]) -> dict[str, Any]:
    deviations = [None if loss is None else loss.deviation for loss in losses]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label,
        "x": list(names),
        "y": [None if loss is None else loss.mean for loss in losses],
        "error_y": {"type": "data", "array": deviations, "visible": any(deviations)},
        "line": {"color": series_colour(position), "dash": DASHES[position % len(DASHES)]},
        "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)]},
        "hovertemplate": f"{label}, %{{x}}: %{{y:.4f}}<extra></extra>",
    }
