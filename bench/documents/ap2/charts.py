"""Charts of the AP2 paper's experiments: losses by epoch, one panel for each start."""

from __future__ import annotations

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.ap2.cells import ARMS, DATA, NAMES, STARTS, Cell
from bench.documents.ap2.decay import COLOURS, decay_chart
from bench.documents.ap2.decay import STUDY as DECAY_STUDY
from bench.documents.pictures import draw
from bench.support.reporting import read_result

CURVES = {"training_loss": "Training loss by epoch", "validation_loss": "Validation loss by epoch"}
"""Measures that are drawn, with their titles."""


def loss_chart(data: str, measure: str) -> go.Figure:
    """Means over seeds by epoch with 95 % confidence bands, one panel for each start, on a logarithmic axis."""
    chart = make_subplots(
        1, len(STARTS), shared_yaxes=True, subplot_titles=[f"start {NAMES[start]}" for start in STARTS]
    )
    is_named: set[str] = set()
    for column, start in enumerate(STARTS, start=1):
        for arm in ARMS:
            epochs = Cell(data, start, arm).epochs(measure)
            if epochs:
                _add_arm(chart, column, arm, epochs, show_name=arm not in is_named)
                is_named.add(arm)
        chart.update_xaxes(title="epoch", row=1, col=column)
    chart.update_yaxes(type="log")
    chart.update_yaxes(title=measure.replace("_", " "), row=1, col=1)
    return chart


def _add_arm(chart: go.Figure, column: int, arm: str, epochs: list[dict], *, show_name: bool) -> None:  # type: ignore[type-arg]
    positions = [epoch["epoch"] for epoch in epochs]
    lowest = min(value for epoch in epochs for value in epoch["seeds"])
    low, high = ([max(epoch["band"][side], 0.5 * lowest) for epoch in epochs] for side in (0, 1))
    chart.add_scatter(
        x=positions + positions[::-1],
        y=high + low[::-1],
        fill="toself",
        fillcolor=COLOURS[arm],
        opacity=0.15,
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        row=1,
        col=column,
    )
    chart.add_scatter(
        x=positions,
        y=[epoch["mean"] for epoch in epochs],
        mode="lines",
        name=NAMES[arm],
        line={"color": COLOURS[arm], "width": 2},
        showlegend=show_name,
        row=1,
        col=column,
    )


def draw_charts() -> None:
    """Draw the charts of everything that is measured."""
    for data in DATA:
        if any(Cell(data, start, arm).saved for start in STARTS for arm in ARMS):
            for measure in CURVES:
                draw(f"ap2_{data}_{measure}", loss_chart(data, measure))
    decay = read_result(DECAY_STUDY)
    if decay is not None:
        draw(DECAY_STUDY, decay_chart(decay))
