"""Charts of probes: losses along batch sizes and epochs, dependence on the mini-batch, time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bln_search.core.enums import ProbeKind
from bln_search.ranking.analysis import MeasuredLatency
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.probe_results import AxisPoint, Company, Line, Probed, crossings, curves
from bln_search.reports.charts.chart import COLOURS, DASHES, SYMBOLS, Chart, colour, layout, word_order

_AXES = {
    ProbeKind.SIZE: ("Loss at other batch sizes", "inference mini-batch size", "log"),
    ProbeKind.EPOCH: ("Loss after other epochs", "epoch of the weights", "linear"),
}


def axis_chart(probed: Iterable[Probed], kind: ProbeKind, arm: str, point: str, estimate: str) -> Chart | None:
    """Mean validation loss of every configuration along batch sizes or epochs; None where it was not probed."""
    lines = {
        line: points
        for line, points in curves(probed, kind).items()
        if line[0] == arm and line[1] == point and line[3] in (estimate, "")
    }
    if not lines:
        return None
    title, axis, scale = _AXES[kind]
    ordered = sorted(lines, key=lambda line: word_order(line[2]))
    traces = [_trace(line, lines[line], position) for position, line in enumerate(ordered)]
    ticks = sorted({one.at for points in lines.values() for one in points})
    figure = {
        "data": traces,
        "layout": layout(
            axis,
            "validation loss",
            xaxis={
                "type": scale,
                **({"tickvals": ticks, "ticktext": [str(at) for at in ticks]} if scale == "log" else {}),
            },
            hovermode="closest",
        ),
    }
    rows = [
        {
            "configuration": line[2],
            kind.value: one.at,
            "loss": one.loss.mean,
            "low": one.loss.low,
            "high": one.loss.high,
            "accuracy": one.accuracy.mean,
            "seeds": one.loss.n,
        }
        for line in ordered
        for one in lines[line]
    ]
    return Chart(title, _crossed(lines), figure, rows)


def _trace(line: Line, points: Sequence[AxisPoint], position: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": line[2],
        "x": [one.at for one in points],
        "y": [one.loss.mean for one in points],
        "line": {"color": colour(position), "dash": DASHES[(position // len(COLOURS)) % len(DASHES)], "width": 1.6},
        "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 7},
        "hovertemplate": f"{line[2]} at %{{x}}: %{{y:.5f}}<extra></extra>",
    }


def _crossed(lines: Mapping[Line, Sequence[AxisPoint]]) -> str:
    found = crossings({line: list(points) for line, points in lines.items()})
    if not found:
        return "Means over seeds. The same configuration has the lowest loss all along."
    turns = "; ".join(
        f"{one.better_before[2]} gives way to {one.better_after[2]} between {one.between[0]} and {one.between[1]}"
        for one in found
    )
    return f"Means over seeds. Where the lowest line changes: {turns}."


def company_chart(found: Mapping[Candidate, Company], arm: str, point: str, estimate: str) -> Chart | None:
    """Share of predictions that change with the company; None where no mini-batch was put together anew."""
    chosen = {
        row[2].word: company
        for row, company in found.items()
        if row[0] == arm and row[1] == point and (row[3] or "") in (estimate, "")
    }
    if not chosen:
        return None
    words = sorted(chosen, key=word_order)
    traces = [
        _bars(0, "other mini-batches", words, [chosen[word].flips for word in words]),
        _bars(1, "mini-batches of one class", words, [chosen[word].skewed_flips for word in words]),
    ]
    figure = {"data": traces, "layout": layout("", "predictions that change (%)", xaxis={"type": "category"})}
    rows = [
        {
            "configuration": word,
            "deterministic": chosen[word].deterministic,
            "flips": chosen[word].flips,
            "deviation": chosen[word].deviation,
            "loss": chosen[word].loss,
            "skewed_flips": chosen[word].skewed_flips,
            "skewed_loss": chosen[word].skewed_loss,
            "seeds": chosen[word].seeds,
        }
        for word in words
    ]
    about = "Share of examples whose predicted class changes when other examples stand in their mini-batch. A "
    about += "configuration that takes both mini-batch statistics from the population depends on none."
    return Chart("Dependence on the mini-batch", about, figure, rows)


def _bars(position: int, name: str, words: Sequence[str], values: Sequence[float | None]) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": list(words),
        "y": [None if value is None else 100 * value for value in values],
        "marker": {"color": colour(position)},
        "hovertemplate": f"%{{x}}, {name}: %{{y:.2f}} %<extra></extra>",
    }


def latency_chart(latencies: Sequence[MeasuredLatency], device: str | None, threads: int | None) -> Chart | None:
    """Time of a mini-batch under every configuration; None where it was not measured."""
    if not latencies:
        return None
    sizes = sorted({one.batch_size for one in latencies})
    traces = []
    for position, size in enumerate(sizes):
        same = sorted(
            (one for one in latencies if one.batch_size == size), key=lambda one: word_order(one.configuration)
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"mini-batch of {size}",
                "x": [one.configuration for one in same],
                "y": [1000 * one.seconds for one in same],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [1000 * (one.upper - one.seconds) for one in same],
                    "arrayminus": [1000 * (one.seconds - one.lower) for one in same],
                    "thickness": 1.2,
                },
                "marker": {"color": colour(position), "symbol": SYMBOLS[position], "size": 9},
                "hovertemplate": "%{x}: %{y:.3f} ms<extra></extra>",
            }
        )
    figure = {
        "data": traces,
        "layout": layout("", "milliseconds", xaxis={"type": "category"}, yaxis={"rangemode": "tozero"}),
    }
    rows = [
        {
            "configuration": one.configuration,
            "batch_size": one.batch_size,
            "seconds": one.seconds,
            "lower_quartile": one.lower,
            "upper_quartile": one.upper,
            "examples_a_second": one.throughput,
            "passes": one.passes,
        }
        for one in latencies
    ]
    where = f"on {device} with {threads} threads" if device else ""
    about = f"Median time of a forward pass {where} and its quartiles, configurations taking turns."
    return Chart("Time at inference", about, figure, rows)
