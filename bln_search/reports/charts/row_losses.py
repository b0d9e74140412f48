"""Chart of the losses of ranked rows with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.reports.charts.chart import COLOURS, Chart, axis_title, plotly_layout
from bln_search.reports.charts.drawn_rows import (
    IN_USE,
    RECOMMENDED,
    Marks,
    category_axis,
    chart_height,
    drawn_rows_note,
    margin_band,
    margin_text,
    mark_traces,
    positions_of_drawn_rows,
)
from bln_search.reports.charts.value_range import RIGHT, find_value_range


@dataclass(frozen=True)
class RowLoss:
    """Mean loss of a row with half the width of its 95 % confidence interval."""

    label: str
    loss: float
    half: float
    is_independent: bool
    is_recommended: bool = False
    is_in_use: bool = False


def row_losses_chart(rows: Sequence[RowLoss], *, split: str, scope: str, unit: str, margin: float) -> Chart:
    """Mean loss of each row with its confidence interval.

    Args:
        rows: Rows from the best one down; at least one.
        split: Split of the losses.
        scope: Over what the interval generalizes: `examples`, or `networks and examples`.
        unit: Unit of the loss; empty for a loss without one.
        margin: Difference up to which rows are practically equal to the first one.
    """
    drawn = [rows[position] for position in positions_of_drawn_rows(len(rows), _find_marks(rows))]
    in_range = find_value_range([row.loss for row in drawn], margin, [row.half for row in drawn])
    labels = [row.label for row in drawn]
    band = margin_band(drawn[0].loss, drawn[0].loss + margin, margin_text(margin, unit))
    near, far = in_range.axis_range
    figure = {
        "data": [
            *_point_traces([row for row in drawn if in_range.contains(row.loss)]),
            *mark_traces(_find_marks(drawn), labels, [in_range.position(row.loss) for row in drawn]),
            *in_range.above_range_traces(((row.label, row.loss) for row in drawn), RIGHT),
        ],
        "layout": plotly_layout(
            axis_title(f"mean {split} loss", unit),
            drawn_rows_note(len(drawn), len(rows)),
            xaxis={"range": [near, max(far, in_range.low + 1.2 * margin)]},
            yaxis=category_axis(labels, categoryorder="array", categoryarray=labels[::-1]),
            height=chart_height(len(drawn)),
            shapes=band,
            showlegend=True,
        ),
    }
    caption = (
        f"Mean loss of each row with its 95 % confidence interval over {scope}. Rows "
        "are paired, so that two of them may differ significantly although their intervals overlap."
    )
    return Chart("Loss of each row", caption, figure, [_data_row(row) for row in rows])


def _find_marks(rows: Sequence[RowLoss]) -> Marks:
    """The positions of the recommended row and of the row in use."""
    return {
        RECOMMENDED: next((position for position, row in enumerate(rows) if row.is_recommended), None),
        IN_USE: next((position for position, row in enumerate(rows) if row.is_in_use), None),
    }


def _point_traces(rows: Sequence[RowLoss]) -> list[dict[str, Any]]:
    series = (
        ("independent of the mini-batch", [row for row in rows if row.is_independent], COLOURS[0], "circle"),
        ("depends on the mini-batch", [row for row in rows if not row.is_independent], COLOURS[1], "diamond"),
    )
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [row.loss for row in members],
            "y": [row.label for row in members],
            "error_x": {
                "type": "data",
                "array": [row.half if math.isfinite(row.half) else None for row in members],
                "thickness": 1.5,
            },
            "marker": {"color": colour, "symbol": symbol, "size": 8},
            "hovertemplate": "%{y}: %{x:.5f}<extra></extra>",
        }
        for name, members, colour, symbol in series
        if members
    ]


def _data_row(row: RowLoss) -> dict[str, Any]:
    return {
        "row": row.label,
        "loss": row.loss,
        "low": row.loss - row.half,
        "high": row.loss + row.half,
        "independent": row.is_independent,
        "recommended": row.is_recommended,
        "in use": row.is_in_use,
    }
