"""Chart of the loss of the first rows on clean images and under each condition of a study."""

from __future__ import annotations

from typing import Any

from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd
from bln_search.reports.charts.chart import DASHES, SYMBOLS, Chart, make_labels_unique, plotly_layout, series_colour
from bln_search.reports.leaderboard_columns import find_metric_value
from bln_search.specs.sections.condition import CLEAN

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
