"""Charts of the configurations: heat map, effects of the switches, ranks under several conditions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.ranking.grouping import Condition, LossBySeed
from bln_search.ranking.statistics.factorial_effects import factorial_effects
from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    colour,
    condition_labels,
    configuration_order,
    layout,
)

ByConfiguration = Mapping[InferenceConfiguration, LossBySeed]


def heat_map(losses: ByConfiguration) -> Chart | None:
    """Mean loss of every configuration: mini-batch pair downwards, feature pair across; None without any."""
    means = {one: statistics.fmean(values.values()) for one, values in losses.items()}
    if not means:
        return None
    batch = sorted({str(one)[:2] for one in means}, key=configuration_order)
    feature = sorted({str(one)[2:] for one in means}, key=configuration_order)
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
        for one in sorted(means, key=configuration_order)
    ]
    about = "Mean loss over seeds; darker is lower. T: from the population, F: from the mini-batch."
    return Chart("Loss of every configuration", about, figure, rows)


def effects_chart(losses: ByConfiguration) -> Chart | None:
    """Main effects and interactions of pairs of switches on the loss; None unless every configuration has a loss."""
    found = factorial_effects(losses)
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
            "loss under T minus loss under F",
            "",
            yaxis={"type": "category", "autorange": "reversed"},
            xaxis={"zeroline": True, "zerolinewidth": 2},
            showlegend=False,
        ),
    }
    about = "Left of zero: taking the statistic from the population (T) lowers the mean loss. " + (
        "Bars are 95 % confidence intervals over seeds; hollow marks are not significantly different from 0."
        if known
        else "With one seed there are no confidence intervals."
    )
    return Chart("Effects of the switches", about, figure, rows)


def rank_chart(conditions: Mapping[Condition, ByConfiguration]) -> Chart | None:
    """The rank of every configuration under several conditions; None for fewer than two that can be compared."""
    labels = condition_labels(conditions)
    return ranks_under({labels[one]: losses for one, losses in conditions.items()})


def ranks_under(conditions: Mapping[str, ByConfiguration]) -> Chart | None:
    """The rank of every configuration under each of several conditions, in their order.

    Only conditions with the same configurations are compared: those of the most frequent set. None for fewer than two.
    """
    counts = Counter(frozenset(losses) for losses in conditions.values())
    most_frequent = max(
        counts, key=lambda configurations: (counts[configurations], len(configurations)), default=frozenset()
    )
    conditions = {label: losses for label, losses in conditions.items() if frozenset(losses) == most_frequent}
    if len(conditions) < 2:
        return None
    ranks = {label: _ranks(losses) for label, losses in conditions.items()}
    configurations = sorted({key for by_key in ranks.values() for key in by_key}, key=configuration_order)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": str(configuration),
            "x": [label.replace(", ", "<br>") for label in conditions],
            "y": [by_key.get(configuration) for by_key in ranks.values()],
            "line": {"color": colour(position), "dash": DASHES[(position // len(COLOURS)) % len(DASHES)], "width": 2},
            "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 9},
            "hovertemplate": f"{configuration}, %{{x}}: rank %{{y}}<extra></extra>",
        }
        for position, configuration in enumerate(configurations)
    ]
    figure = {
        "data": traces,
        "layout": layout(
            "",
            "rank by mean loss",
            yaxis={"range": [len(configurations) + 0.5, 0.5], "dtick": 1},
            xaxis={"type": "category"},
        ),
    }
    rows = [
        {
            "condition": label,
            "configuration": str(configuration),
            "rank": rank,
            "loss": statistics.fmean(conditions[label][configuration].values()),
        }
        for label, by_key in ranks.items()
        for configuration, rank in by_key.items()
    ]
    about = (
        "Rank 1 is the lowest mean loss under that condition. Lines cross where the order of configurations changes."
    )
    return Chart("Ranks by condition", about, figure, rows)


def _ranks(losses: ByConfiguration) -> dict[InferenceConfiguration, int]:
    means = {one: statistics.fmean(values.values()) for one, values in losses.items()}
    ordered = sorted(means, key=lambda one: (means[one], configuration_order(one)))
    return {one: place for place, one in enumerate(ordered, start=1)}
