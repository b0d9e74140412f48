"""Charts of the configurations: heat map, effects of the switches, ranks under several conditions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.ranking.grouping import Condition, Losses
from bln_search.ranking.statistics.factorial_effects import effects
from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    colour,
    condition_labels,
    layout,
    word_order,
)

ByConfiguration = Mapping[InferenceConfiguration, Losses]


def heat_map(losses: ByConfiguration) -> Chart | None:
    """Mean loss of every configuration: mini-batch pair downwards, feature pair across; None without any."""
    means = {one: statistics.fmean(values.values()) for one, values in losses.items()}
    if not means:
        return None
    batch = sorted({str(one)[:2] for one in means}, key=word_order)
    feature = sorted({str(one)[2:] for one in means}, key=word_order)
    cells = {str(one): value for one, value in means.items()}
    z = [[cells.get(row + column) for column in feature] for row in batch]
    text = [["" if value is None else f"{value:.4f}" for value in row] for row in z]
    figure = {
        "data": [
            {
                "type": "heatmap",
                "x": feature,
                "y": batch,
                "z": z,
                "text": text,
                "texttemplate": "%{text}",
                "colorscale": "Viridis",
                "colorbar": {"title": {"text": "loss"}},
                "hovertemplate": "%{y}%{x}: loss %{z:.5f}<extra></extra>",
            }
        ],
        "layout": layout(
            "feature mean and deviation (E_F, Std_F)",
            "mini-batch mean and deviation (E_B, Std_B)",
            xaxis={"type": "category"},
            yaxis={"type": "category", "autorange": "reversed"},
        ),
    }
    rows = [
        {"configuration": str(one), "loss": means[one], "seeds": len(losses[one])}
        for one in sorted(means, key=word_order)
    ]
    about = "Mean loss over seeds; the darker the lower. T: from the population, F: from the mini-batch at hand."
    return Chart("Loss of every configuration", about, figure, rows)


def effects_chart(losses: ByConfiguration) -> Chart | None:
    """What each switch and each pair of switches does to the loss; None unless every configuration has one."""
    found = effects(losses)
    if found is None:
        return None
    rows = [
        {"effect": one.name, "loss": one.loss.mean, "low": one.loss.low, "high": one.loss.high, "seeds": one.loss.n}
        for one in found
    ]
    known = found[0].loss.half is not None
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": [one.loss.mean for one in found],
        "y": [one.name for one in found],
        "marker": {
            "size": 10,
            "color": [COLOURS[0] if one.loss.excludes_zero else COLOURS[7] for one in found],
            "symbol": ["circle" if one.loss.excludes_zero else "circle-open" for one in found],
        },
        "hovertemplate": "%{y}: %{x:+.5f}<extra></extra>",
    }
    if known:
        trace["error_x"] = {
            "type": "data",
            "array": [one.loss.half for one in found],
            "thickness": 1.5,
            "color": COLOURS[7],
        }
    figure = {
        "data": [trace],
        "layout": layout(
            "loss under T less loss under F",
            "",
            yaxis={"type": "category", "autorange": "reversed"},
            xaxis={"zeroline": True, "zerolinewidth": 2},
            showlegend=False,
        ),
    }
    about = "Left of zero: taking the statistic from the population (T) lowers the mean loss. " + (
        "Bars are 95 % intervals over seeds; hollow marks cannot be told from no effect."
        if known
        else "One seed: there is no interval, and no telling what is chance."
    )
    return Chart("What each switch does", about, figure, rows)


def rank_chart(conditions: Mapping[Condition, ByConfiguration]) -> Chart | None:
    """The rank of every configuration under several conditions; None for fewer than two that can be compared."""
    labels = condition_labels(conditions)
    return ranks_under({labels[one]: losses for one, losses in conditions.items()})


def ranks_under(conditions: Mapping[str, ByConfiguration]) -> Chart | None:
    """The rank of every configuration under each of several conditions, in their order.

    Only conditions with the same configurations are compared: of the method that has most of them. None for fewer than
    two.
    """
    counted = Counter(frozenset(losses) for losses in conditions.values())
    wanted = max(counted, key=lambda words: (counted[words], len(words)), default=frozenset())
    conditions = {label: losses for label, losses in conditions.items() if frozenset(losses) == wanted}
    if len(conditions) < 2:
        return None
    ranks = {label: _ranks(losses) for label, losses in conditions.items()}
    words = sorted({one for found in ranks.values() for one in found}, key=word_order)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": str(one),
            "x": [label.replace(", ", "<br>") for label in conditions],
            "y": [found.get(one) for found in ranks.values()],
            "line": {"color": colour(position), "dash": DASHES[(position // len(COLOURS)) % len(DASHES)], "width": 2},
            "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 9},
            "hovertemplate": f"{one}, %{{x}}: rank %{{y}}<extra></extra>",
        }
        for position, one in enumerate(words)
    ]
    figure = {
        "data": traces,
        "layout": layout(
            "", "rank by mean loss", yaxis={"range": [len(words) + 0.5, 0.5], "dtick": 1}, xaxis={"type": "category"}
        ),
    }
    rows = [
        {
            "condition": label,
            "configuration": str(one),
            "rank": place,
            "loss": statistics.fmean(conditions[label][one].values()),
        }
        for label, found in ranks.items()
        for one, place in found.items()
    ]
    about = "Rank 1 is the lowest mean loss under that condition. Where lines cross, another configuration wins."
    return Chart("Which configuration wins where", about, figure, rows)


def _ranks(losses: ByConfiguration) -> dict[InferenceConfiguration, int]:
    means = {one: statistics.fmean(values.values()) for one, values in losses.items()}
    ordered = sorted(means, key=lambda one: (means[one], word_order(one)))
    return {one: place for place, one in enumerate(ordered, start=1)}
