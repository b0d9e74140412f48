"""Chart of ranked rows: losses by condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd
from bln_search.reports.charts.chart import (
    DASHES,
    SYMBOLS,
    Chart,
    axis_title,
    make_labels_unique,
    plotly_layout,
    series_colour,
)
from bln_search.reports.charts.drawn_rows import GLYPHS, RECOMMENDED, category_axis
from bln_search.reports.charts.value_range import TOP, ValueRange, find_value_range
from bln_search.reports.metric_columns import find_metric_value
from bln_search.specs.sections.condition import CLEAN

_MAX_ROWS = 8


def condition_losses_chart(
    board: Leaderboard, *, unit: str = "nats", ranking: str = CLEAN, recommended: RowKey | None = None
) -> Chart | None:
    """A line for each of the first rows over clean images and conditions; None for a study without conditions.

    Args:
        board: The leaderboard.
        unit: Unit of the loss; empty for a loss without one.
        ranking: Name of the condition that ranks the rows.
        recommended: The recommended row; None without one.
    """
    ranked = [row for row in board.rows if row.rank is not None and row.conditions is not None][:_MAX_ROWS]
    if not ranked:
        return None
    labels = make_labels_unique(_row_label(row, ranked, recommended) for row in ranked)
    names = (ranking, *board.condition_names)
    losses = [
        [find_metric_value(row, board.ranked_on, "loss", "" if name == ranking else name) for name in names]
        for row in ranked
    ]
    points = [(name, loss) for line in losses for name, loss in zip(names, line, strict=True) if loss is not None]
    in_range = find_value_range([loss.mean for _, loss in points], halves=[loss.deviation for _, loss in points])
    rows = [
        {"row": label, "condition": name, "loss": loss.mean, "deviation": loss.deviation}
        for label, line in zip(labels, losses, strict=True)
        for name, loss in zip(names, line, strict=True)
        if loss is not None
    ]
    figure = {
        "data": [
            *(
                _row_line_trace(position, label, names, line, in_range)
                for position, (label, line) in enumerate(zip(labels, losses, strict=True))
            ),
            *in_range.above_range_traces([(name, loss.mean) for name, loss in points], TOP),
        ],
        "layout": plotly_layout(
            "condition",
            axis_title(f"mean {board.ranked_on} loss", unit),
            xaxis=category_axis(names),
            yaxis={"range": in_range.axis_range},
        ),
    }
    where = "on clean images" if ranking == CLEAN else f"under {ranking}, which ranks,"
    caption = (
        f"Mean {board.ranked_on} loss over seeds of the first {len(ranked)} rows, {where} and under each condition; "
        "bars are one standard deviation over seeds."
    )
    if recommended in [row.key for row in ranked]:
        caption += f" {GLYPHS[RECOMMENDED]}: the recommended row."
    return Chart("Loss by condition", caption, figure, rows)


def _row_label(row: LeaderboardRow, rows: list[LeaderboardRow], recommended: RowKey | None) -> str:
    """Arm, configuration and estimate, and the batch size where the rows have several."""
    has_sizes = len({other.batch_size for other in rows}) > 1
    mark = f"{GLYPHS[RECOMMENDED]} " if row.key == recommended else ""
    return mark + row.key.arm_configuration_and_estimate_label + (f", batch {row.batch_size}" if has_sizes else "")


def _row_line_trace(
    position: int,
    label: str,
    names: tuple[str, ...],
    losses: Sequence[MeanStd | None],
    in_range: ValueRange,
) -> dict[str, Any]:
    deviations = [loss.deviation if loss is not None and in_range.contains(loss.mean) else None for loss in losses]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label,
        "x": list(names),
        "y": [None if loss is None else in_range.position(loss.mean) for loss in losses],
        "error_y": {"type": "data", "array": deviations, "visible": any(deviations)},
        "line": {"color": series_colour(position), "dash": DASHES[position % len(DASHES)]},
        "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)]},
        "customdata": [None if loss is None else loss.mean for loss in losses],
        "hovertemplate": f"{label}, %{{x}}: %{{customdata:.4f}}<extra></extra>",
    }
