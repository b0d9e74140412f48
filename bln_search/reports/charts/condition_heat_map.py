"""Chart of the losses of rows under several conditions, as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bln_search.reports.charts.chart import Chart, axis_title, plotly_layout
from bln_search.reports.charts.difference_colours import DifferenceColours, find_difference_colours
from bln_search.reports.charts.drawn_rows import (
    Marks,
    category_axis,
    chart_height,
    drawn_rows_note,
    glyph_legend,
    mark_labels,
    positions_of_drawn_rows,
)
from bln_search.reports.charts.value_range import ABOVE
from bln_search.reports.formatting import format_loss

_MAX_COLUMNS_WITH_VALUES = 10
"""Number of conditions up to which cells have room for their losses."""


def row_losses_by_condition_heat_map(
    labels: Sequence[str],
    conditions: Sequence[str],
    losses: Sequence[Sequence[float]],
    *,
    unit: str,
    margin: float,
    marks: Marks | None = None,
) -> Chart:
    """Loss of each row in each condition, colored by its regret.

    Args:
        labels: Name of each row, from the best one down; at least one.
        conditions: Names of the conditions.
        losses: Mean loss by row and condition.
        unit: Unit of the loss; empty for a loss without one.
        margin: Difference up to which rows are practically equal.
        marks: The recommended row and the row in use.
    """
    marks = marks or {}
    lowest = [min(column) for column in zip(*losses, strict=True)]
    regrets = [[loss - low for loss, low in zip(line, lowest, strict=True)] for line in losses]
    positions = positions_of_drawn_rows(len(labels), marks)
    drawn_regrets = [regrets[position] for position in positions]
    colours = find_difference_colours((regret for line in drawn_regrets for regret in line), margin)
    marked_labels = mark_labels(marks, labels)
    names = [marked_labels[position] for position in positions]
    trace = {
        "type": "heatmap",
        "x": list(conditions),
        "y": names,
        "z": [[colours.position(regret) for regret in line] for line in drawn_regrets],
        "text": [
            _cell_texts(losses[position], regrets[position], colours, has_values=_has_room_for_values(conditions))
            for position in positions
        ],
        "customdata": [_hover_texts(losses[position], regrets[position]) for position in positions],
        "texttemplate": "%{text}",
        "hovertemplate": "%{y}, %{x}: %{customdata}<extra></extra>",
        "xgap": 1,
        "ygap": 1,
        **colours.trace_options(axis_title("regret", unit)),
    }
    legend = [glyph_legend(marks), f"{ABOVE} regret above the color scale" if colours.is_cut else ""]
    figure = {
        "data": [trace],
        "layout": plotly_layout(
            "<br>".join(["condition", *filter(None, legend)]),
            drawn_rows_note(len(positions), len(labels)),
            xaxis=category_axis(conditions),
            yaxis=category_axis(names, autorange="reversed", dtick=1),
            height=chart_height(len(positions)),
        ),
    }
    rows: list[dict[str, Any]] = [
        {"row": label, "condition": condition, "loss": loss, "regret": above}
        for label, line, above_line in zip(labels, losses, regrets, strict=True)
        for condition, loss, above in zip(conditions, line, above_line, strict=True)
    ]
    caption = "Numbers: mean loss. Color: regret, the loss above the lowest loss of any row in that condition."
    return Chart("Loss of each row by condition", caption, figure, rows)


def _has_room_for_values(conditions: Sequence[str]) -> bool:
    return len(conditions) <= _MAX_COLUMNS_WITH_VALUES


def _cell_texts(
    losses: Sequence[float], regrets: Sequence[float], colours: DifferenceColours, *, has_values: bool
) -> list[str]:
    """The losses of a row, marked where the regret is above the color scale."""
    marks = [ABOVE if regret > colours.span else "" for regret in regrets]
    values = [format_loss(loss) if has_values else "" for loss in losses]
    return [f"{mark} {value}".strip() for mark, value in zip(marks, values, strict=True)]


def _hover_texts(losses: Sequence[float], regrets: Sequence[float]) -> list[str]:
    return [f"loss {loss:.5f}, regret {regret:.5f}" for loss, regret in zip(losses, regrets, strict=True)]
