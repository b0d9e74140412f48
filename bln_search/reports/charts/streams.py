"""Error or loss of each arm of adaptation while the stream goes on, with the moments of collapse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bln_search.core.names import format_count_with_noun
from bln_search.ranking.stream_results import ComparedAdaptation, StudyStreams
from bln_search.reports.charts.chart import COLOURS, DASHES, Chart, plotly_layout, series_colour

_MAX_NAMED_CONDITIONS = 30
"""Starts of conditions that are drawn at most."""

MAX_DRAWN_ARMS = 12
"""Arms that are drawn: the best ones, and those that collapsed or ended."""


@dataclass(frozen=True)
class StreamMeasure:
    """What is drawn of a window.

    Attributes:
        name: With its unit.
        title: Of the chart.
        is_loss: Whether it is the loss; otherwise the error in per cent.
    """

    name: str
    title: str
    is_loss: bool = False

    def values_of(self, row: ComparedAdaptation) -> list[float | None]:
        """The value of each window."""
        return list(row.losses) if self.is_loss else [100 * error for error in row.errors]


MEASURES = {
    "errors": StreamMeasure("error (%)", "Error over the stream"),
    "losses": StreamMeasure("loss (nats)", "Loss over the stream", is_loss=True),
}
"""The charts by their names in URLs."""


def stream_chart(streams: StudyStreams, measure: StreamMeasure) -> Chart | None:
    """One line for each arm over the mini-batches of the stream; None without arms."""
    if not streams.rows:
        return None
    drawn = _choose_drawn_rows(streams)
    middles = _middles_of_windows(streams)
    traces: list[dict[str, Any]] = []
    for position, row in enumerate(drawn):
        values = measure.values_of(row)
        colour = series_colour(position)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": middles,
                "y": values,
                "name": row.label,
                "legendgroup": row.label,
                "line": {"color": colour, "dash": DASHES[position // len(COLOURS) % len(DASHES)], "width": 2},
                "hovertemplate": "%{fullData.name}, mini-batch %{x}: %{y:.4g}<extra></extra>",
            }
        )
        if row.collapses:
            traces.append(_collapse_trace(row, values, streams.window, colour))
    figure = {
        "data": traces,
        "layout": plotly_layout(
            "mini-batch",
            measure.name,
            hovermode="closest",
            xaxis={"rangemode": "tozero"},
            yaxis={"rangemode": "tozero"},
            shapes=[_condition_line(start.batch) for start in streams.starts[1:_MAX_NAMED_CONDITIONS]],
        ),
    }
    return Chart(measure.title, _make_caption(streams, measure, len(drawn)), figure, _make_rows(streams))


def _choose_drawn_rows(streams: StudyStreams) -> list[ComparedAdaptation]:
    """The best arms; of the others those that collapsed or ended come first."""
    if len(streams.rows) <= MAX_DRAWN_ARMS:
        return list(streams.rows)
    failing = [row for row in streams.rows if row.collapses or row.ends][: MAX_DRAWN_ARMS // 2]
    best = [row for row in streams.rows if row not in failing][: MAX_DRAWN_ARMS - len(failing)]
    return [row for row in streams.rows if row in best or row in failing]


def _middles_of_windows(streams: StudyStreams) -> list[float]:
    starts = range(0, streams.batches, streams.window)
    return [(start + min(start + streams.window, streams.batches) - 1) / 2 for start in starts]


def _collapse_trace(row: ComparedAdaptation, values: list[float | None], window: int, colour: str) -> dict[str, Any]:
    """A mark at the mini-batch at which each stream collapsed beside the arm without adaptation."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [collapse.batch for collapse in row.collapses],
        "y": [values[collapse.batch // window] for collapse in row.collapses],
        "text": [f"seed {collapse.seed}, order {collapse.order}" for collapse in row.collapses],
        "name": f"{row.label}: collapse",
        "legendgroup": row.label,
        "marker": {"symbol": "x", "size": 11, "color": colour},
        "hovertemplate": "%{fullData.name} at mini-batch %{x} (%{text})<extra></extra>",
    }


def _condition_line(batch: int) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": batch - 0.5,
        "x1": batch - 0.5,
        "y0": 0,
        "y1": 1,
        "line": {"width": 1, "dash": "dot", "color": "#999999"},
    }


def _make_caption(streams: StudyStreams, measure: StreamMeasure, drawn: int) -> str:
    window = "each mini-batch" if streams.window == 1 else f"windows of {streams.window} mini-batches"
    means = format_count_with_noun(streams.networks, "network", "networks")
    orders = format_count_with_noun(streams.orders, "order", "orders")
    sentences = [f"Mean over {means} and {orders} in {window}."]
    named = streams.starts[:_MAX_NAMED_CONDITIONS]
    if len(named) > 1:
        places = ", ".join(f"{start.condition} from {start.batch}" for start in named)
        sentences.append(f"Dotted lines: conditions begin ({places}).")
    if any(row.collapses for row in streams.rows):
        sentences.append("×: from there the predictions of a stream are no better than chance.")
    if any(row.ends for row in streams.rows):
        sentences.append(
            "A line stops where the arm ended." if measure.is_loss else "After the end of an arm all count as wrong."
        )
    if drawn < len(streams.rows):
        sentences.append(f"{drawn} of {len(streams.rows)} arms are drawn.")
    return " ".join(sentences)


def _make_rows(streams: StudyStreams) -> list[dict[str, Any]]:
    starts = list(range(0, streams.batches, streams.window))
    return [
        {
            "arm": row.label,
            "first mini-batch": start,
            "condition": next((begin.condition for begin in reversed(streams.starts) if begin.batch <= start), None),
            "error": row.errors[number],
            "loss": row.losses[number],
            "collapsed": sum(collapse.batch < start + streams.window for collapse in row.collapses),
        }
        for row in streams.rows
        for number, start in enumerate(starts)
    ]
