"""Charts of a comparison: differences to the best row, and the critical-difference diagram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.reports.charts.chart import COLOURS, Chart, make_labels_unique, plotly_layout
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


def differences_to_best_chart(comparison: Comparison) -> Chart:
    """Mean loss of every row minus that of the best row."""
    labels = compared_row_labels(comparison.rows, numbered=True)
    point_labels = make_label_by_distinct_point(row.point for row in comparison.rows)
    rows: list[dict[str, Any]] = []
    for index, row in enumerate(comparison.rows):
        pair = comparison.find_pair(0, index)
        rows.append(
            {
                "row": labels[index],
                **({"parameters": point_labels[row.point]} if row.point else {}),
                "group": row.letters or "",
                "difference": 0.0 if pair is None else -pair.loss.mean,
                "low": 0.0 if pair is None else -pair.loss.high,
                "high": 0.0 if pair is None else -pair.loss.low,
                "p": None if pair is None else pair.loss.adjusted,
                "in_top_group": row.in_top_group,
            }
        )
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [row["difference"] for row in rows],
        "y": labels,
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
            "color": [COLOURS[2] if row["in_top_group"] else COLOURS[7] for row in rows],
            "symbol": ["circle" if row["in_top_group"] else "circle-open" for row in rows],
        },
        "text": [_row_hover_text(row, point_labels[row.point]) for row in comparison.rows],
        "hovertemplate": "%{y}: %{x:+.5f}%{text}<extra></extra>",
    }
    figure = {
        "data": [trace],
        "layout": plotly_layout(
            f"mean {comparison.split} loss above the best row's",
            "",
            yaxis={"type": "category", "autorange": "reversed", "dtick": 1},
            xaxis={"zeroline": True, "zerolinewidth": 2},
            showlegend=False,
            height=_height_for_rows(len(rows)),
        ),
    }
    caption = (
        "Bars are 95 % confidence intervals over seeds and examples. Filled marks: rows up to the first that is "
        "significantly different from the best row (5 %, corrected for all pairs)."
    ) + _numbered_labels_note(comparison)
    return Chart("Differences to the best row", caption, figure, rows)


def critical_difference_chart(comparison: Comparison) -> Chart | None:
    """Critical-difference diagram: mean ranks over seeds, with lines joining rows that do not differ (Nemenyi).

    Returns None if the comparison has no Friedman test.
    """
    test = comparison.friedman
    if test is None:
        return None
    labels = compared_row_labels(comparison.rows, numbered=True)
    ranked = sorted(
        ((row.mean_rank or 0.0, label) for row, label in zip(comparison.rows, labels, strict=True)),
        key=lambda ranked_row: ranked_row[0],
    )
    ranks = [rank for rank, _ in ranked]
    groups = _rank_groups_within_difference(ranks, test.critical_difference)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": ranks,
            "y": list(range(len(ranked))),
            "marker": {"size": 9, "color": COLOURS[0]},
            "text": [label for _, label in ranked],
            "hovertemplate": "%{text}: mean rank %{x:.2f}<extra></extra>",
            "showlegend": False,
        }
    ]
    traces += [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [ranks[first], ranks[last]],
            "y": [-1 - 0.6 * index] * 2,
            "line": {"width": 5, "color": COLOURS[1]},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for index, (first, last) in enumerate(groups)
    ]
    bottom = -1.6 - 0.6 * len(groups)
    figure = {
        "data": traces,
        "layout": plotly_layout(
            "mean rank over seeds",
            "",
            yaxis={
                "tickvals": list(range(len(ranked))),
                "ticktext": [label for _, label in ranked],
                "range": [len(ranked) - 0.5, bottom],
                "zeroline": False,
            },
            height=_height_for_rows(len(ranked) + len(groups)),
        ),
    }
    rows = [
        {"row": label, "mean_rank": rank, "critical_difference": test.critical_difference} for rank, label in ranked
    ]
    caption = (
        f"Friedman test over {comparison.seeds} seeds, for these {comparison.examples} examples only: "
        f"p = {test.p:.2g}. Orange lines join rows whose mean ranks differ by less than the critical difference of "
        f"{test.critical_difference:.2f} (Nemenyi, 5 %)."
    ) + _numbered_labels_note(comparison)
    return Chart("Critical difference of mean ranks", caption, figure, rows)


def _row_hover_text(row: ComparedRow, point_label: str) -> str:
    group = f", group {row.letters}" if row.letters else ""
    return f"{group}<br>{point_label}" if row.point else group


def _numbered_labels_note(comparison: Comparison) -> str:
    """What the numbers of the labels are; empty where rows have no parameters."""
    if len({row.point for row in comparison.rows}) < 2:
        return ""
    return " #3 is the third of the compared rows by mean loss; the leaderboard has its parameters."


def _rank_groups_within_difference(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """First and last row of the maximal runs, ordered by rank, whose ranks lie within the critical difference."""
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(index for index in range(first, len(ranks)) if ranks[index] - ranks[first] <= difference)
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def _height_for_rows(rows: int) -> int:
    """Height in pixels at which labels do not overlap."""
    return max(420, 90 + 24 * rows)
