"""Charts of an analysis: differences to the best row, shares of the variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow, Comparison, RowVerdict
from bln_search.ranking.effect_records import VarianceShares
from bln_search.reports.charts.chart import (
    COLOURS,
    Chart,
    axis_title,
    make_labels_unique,
    plotly_layout,
    series_colour,
)
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
from bln_search.reports.charts.value_range import LEFT, RIGHT, find_value_range, out_of_range_traces
from bln_search.specs.sections.point_labels import make_label_by_distinct_point


def compared_row_labels(rows: Sequence[ComparedRow], *, numbered: bool = False) -> list[str]:
    """Configurations with the other attributes in which rows differ.

    Args:
        rows: The rows, by increasing mean loss.
        numbered: Write `#3` for the third row instead of the parameters of a search, which take the room of a chart.
    """
    labels = []
    point_labels = make_label_by_distinct_point(row.point for row in rows)
    has_points = len(point_labels) > 1
    for number, row in enumerate(rows, start=1):
        parts = [f"#{number}"] if has_points and numbered else []
        parts += [row.arm] if len({other.arm for other in rows}) > 1 else []
        if has_points and not numbered:
            parts.append(point_labels[row.point])
        parts.append(row.configuration)
        if len({other.estimate for other in rows if other.estimate}) > 1 and row.estimate:
            parts.append(row.estimate)
        if len({other.batch_size for other in rows}) > 1:
            parts.append(str(row.batch_size))
        labels.append(" ".join(part for part in parts if part))
    return make_labels_unique(labels)


def differences_to_best_chart(
    comparison: Comparison, *, unit: str = "nats", recommended: RowKey | None = None
) -> Chart:
    """Mean loss of every row minus that of the best row.

    Args:
        comparison: The compared rows.
        unit: Unit of the loss; empty for a loss without one.
        recommended: The recommended row; None without one.
    """
    labels = compared_row_labels(comparison.rows, numbered=True)
    point_labels = make_label_by_distinct_point(row.point for row in comparison.rows)
    rows: list[dict[str, Any]] = []
    for index, row in enumerate(comparison.rows):
        rows.append(
            {
                "row": labels[index],
                **({"parameters": point_labels[row.point]} if row.point else {}),
                "verdict": row.verdict,
                "difference": row.above_best.mean,
                "low": row.above_best.low,
                "high": row.above_best.high,
                "p": row.above_best.adjusted,
            }
        )
    caption = (
        "Bars are 95 % confidence intervals of each difference alone. Shaded: practically equal to the best row. Open "
        "marks: significantly worse (5 %, corrected for all rows)."
    ) + _numbered_labels_note(comparison)
    loss_name = comparison.loss_name if comparison.over else f"mean {comparison.split} loss"
    positions = {row.key: position for position, row in enumerate(comparison.rows)}
    return differences_chart(
        rows,
        [_row_hover_text(row, point_labels[row.point]) for row in comparison.rows],
        comparison.margin,
        axis_title(f"{loss_name} above the best row's", unit),
        caption,
        unit=unit,
        marks={
            RECOMMENDED: None if recommended is None else positions.get(recommended),
            IN_USE: comparison.current,
        },
    )


def differences_chart(
    rows: list[dict[str, Any]],
    hover_texts: Sequence[str],
    margin: float,
    axis: str,
    caption: str = "",
    *,
    unit: str = "",
    marks: Marks,
    lower_is_better: bool | None = None,
) -> Chart:
    """Differences to the best row with their intervals, and the region of practically equal rows.

    Args:
        rows: `row`, `verdict`, `difference`, `low` and `high` of each row, from the best one down.
        hover_texts: Text after the difference of each row.
        margin: Difference up to which rows are practically equal.
        axis: What the difference is.
        caption: How to read the chart.
        unit: Unit of the margin.
        marks: The recommended row and the row in use.
        lower_is_better: The side on which differences far away are cut off; None for the one without the best row.
    """
    positions = positions_of_drawn_rows(len(rows), marks)
    drawn = [rows[position] for position in positions]
    if lower_is_better is None:
        lower_is_better = all(row["difference"] >= 0 for row in rows)
    sign = 1 if lower_is_better else -1
    halves = [(row["high"] - row["low"]) / 2 for row in drawn]
    in_range = find_value_range([sign * row["difference"] for row in drawn], margin, halves)
    shown = [position for position in positions if in_range.contains(sign * rows[position]["difference"])]
    end = sign * in_range.end
    beyond = [(rows[position]["row"], rows[position]["difference"]) for position in positions if position not in shown]
    labels = [row["row"] for row in rows]
    near, far = in_range.axis_range
    axis_range = sorted((sign * min(near, -1.2 * margin), sign * max(far, 1.2 * margin)))
    figure = {
        "data": [
            _differences_trace([rows[position] for position in shown], [hover_texts[position] for position in shown]),
            *mark_traces(marks, labels, [sign * (in_range.position(sign * row["difference"]) or 0.0) for row in rows]),
            *out_of_range_traces(beyond, end, RIGHT if sign > 0 else LEFT),
        ],
        "layout": plotly_layout(
            axis,
            drawn_rows_note(len(drawn), len(rows)),
            yaxis=category_axis(
                [row["row"] for row in drawn],
                categoryorder="array",
                categoryarray=[row["row"] for row in drawn],
                autorange="reversed",
                dtick=1,
            ),
            xaxis={"zeroline": True, "zerolinewidth": 2, "range": axis_range},
            showlegend=True,
            height=chart_height(len(drawn)),
            shapes=margin_band(-margin, margin, margin_text(margin, unit)),
        ),
    }
    return Chart("Differences to the best row", caption, figure, rows)


def _differences_trace(rows: Sequence[dict[str, Any]], hover_texts: Sequence[str]) -> dict[str, Any]:
    are_worse = [row["verdict"] == RowVerdict.WORSE for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [row["difference"] for row in rows],
        "y": [row["row"] for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row["high"] - row["difference"] for row in rows],
            "arrayminus": [row["difference"] - row["low"] for row in rows],
            "thickness": 1.5,
            "color": COLOURS[7],
        },
        "marker": {
            "size": 9,
            "color": [COLOURS[7] if is_worse else COLOURS[2] for is_worse in are_worse],
            "symbol": ["circle-open" if is_worse else "circle" for is_worse in are_worse],
        },
        "text": list(hover_texts),
        "hovertemplate": "%{y}: %{x:+.5f}%{text}<extra></extra>",
        "showlegend": False,
    }


def _row_hover_text(row: ComparedRow, point_label: str) -> str:
    return f", {row.verdict}<br>{point_label}" if row.point else f", {row.verdict}"


def _numbered_labels_note(comparison: Comparison) -> str:
    """What the numbers of the labels are; empty where rows have no parameters."""
    if len({row.point for row in comparison.rows}) < 2:
        return ""
    return " #3 is the third of the compared rows by mean loss; the leaderboard has its parameters."


def variance_shares_chart(variance_shares: Sequence[VarianceShares], arm: str, point: str) -> Chart | None:
    """A stacked bar of factors for each metric; None if the arm has no balanced design."""
    of_arm = [
        metric_shares for metric_shares in variance_shares if (metric_shares.arm, metric_shares.point) == (arm, point)
    ]
    if not of_arm:
        return None
    metrics = [f"{metric_shares.split} {metric_shares.metric}" for metric_shares in of_arm]
    names = list(dict.fromkeys(name for metric_shares in of_arm for name, _ in metric_shares.shares))
    shares = [dict(metric_shares.shares) for metric_shares in of_arm]
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": metrics,
            "y": [100 * metric_shares.get(name, 0.0) for metric_shares in shares],
            "marker": {"color": series_colour(position)},
            "hovertemplate": f"%{{x}}, {name}: %{{y:.1f}} %<extra></extra>",
        }
        for position, name in enumerate(names)
    ]
    figure = {
        "data": traces,
        "layout": plotly_layout("metric", "share of the variance (%)", barmode="stack", xaxis={"type": "category"}),
    }
    rows = [
        {"split": metric_shares.split.value, "metric": metric_shares.metric, "factor": name, "share": share}
        for metric_shares in of_arm
        for name, share in metric_shares.shares
    ]
    caption = (
        "Share of the total sum of squares that each factor explains by itself (eta squared), then of the interactions "
        "of the switches, then the residual."
    )
    return Chart("Variance shares by factor", caption, figure, rows)
