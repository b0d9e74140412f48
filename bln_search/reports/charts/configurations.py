"""Charts of the configurations: heat map, effects of the switches, ranks under several evaluation settings."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import StatisticSource, describe_origin
from bln_search.ranking.grouping import LossBySeed, RowKeyWithoutConfiguration
from bln_search.ranking.statistics.factorial_effects import compute_factorial_effects
from bln_search.reports.charts.chart import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Chart,
    axis_title,
    configuration_sort_key,
    plotly_layout,
    series_colour,
    unique_setting_labels,
    wrap_tick_label,
)
from bln_search.reports.charts.difference_colours import DifferenceColours, find_difference_colours
from bln_search.reports.charts.drawn_rows import GLYPHS, RECOMMENDED
from bln_search.reports.charts.value_range import ABOVE
from bln_search.reports.formatting import format_loss

ByConfiguration = Mapping[InferenceConfiguration, LossBySeed]

_BRIGHT = 0.43
"""Fraction of the color scale Viridis from which black has more contrast than white: a luminance of 0.18."""

NOT_EVALUATED = "not evaluated"
NO_VALUE_COLOUR = "rgba(128,128,128,0.3)"
"""Neutral on light and dark pages, and not a color of the scale."""


def configuration_losses_heat_map(
    losses: ByConfiguration,
    reasons: Mapping[InferenceConfiguration, str] | None = None,
    *,
    unit: str = "nats",
    margin: float | None = None,
    recommended: InferenceConfiguration | None = None,
) -> Chart | None:
    """Mean loss of every configuration: mini-batch pairs as rows, feature pairs as columns; None without losses.

    A cell without a loss is grey; its hover text and the caption say why it has none.

    Args:
        losses: Losses by seed of the configurations.
        reasons: Why other configurations have no loss.
        unit: Unit of the loss; empty for a loss without one.
        margin: Difference up to which rows are practically equal; by default 1 % of the lowest loss.
        recommended: The configuration of the recommended row, if it is one of these rows.
    """
    means = {configuration: statistics.fmean(values.values()) for configuration, values in losses.items()}
    if not means:
        return None
    batch_letters = sorted({str(configuration)[:2] for configuration in means}, key=configuration_sort_key)
    feature_letters = sorted({str(configuration)[2:] for configuration in means}, key=configuration_sort_key)
    cells = {str(configuration): value for configuration, value in means.items()}
    lowest = min(means.values())
    colours = find_difference_colours(
        [loss - lowest for loss in cells.values()], abs(lowest) / 100 if margin is None else margin
    )
    codes = [[row + column for column in feature_letters] for row in batch_letters]
    reason_by_code = {str(configuration): reason for configuration, reason in (reasons or {}).items()}
    missing = {
        row + column: reason_by_code.get(row + column, NOT_EVALUATED)
        for row in batch_letters
        for column in feature_letters
        if row + column not in cells
    }
    trace = {
        "type": "heatmap",
        "x": feature_letters,
        "y": batch_letters,
        "z": [[colours.position(cells[code] - lowest) if code in cells else None for code in line] for line in codes],
        "customdata": [[f"{cells[code]:.5f}" if code in cells else None for code in line] for line in codes],
        "hovertemplate": "%{y}%{x}: loss %{customdata}<extra></extra>",
        **colours.trace_options(axis_title("loss above the lowest", unit)),
    }
    figure = {
        "data": [trace, *_missing_cells_traces(feature_letters, batch_letters, missing)],
        "layout": plotly_layout(
            "feature mean and deviation (E_F, Std_F)",
            "mini-batch mean and deviation (E_B, Std_B)",
            xaxis={"type": "category"},
            yaxis={"type": "category", "autorange": "reversed"},
            annotations=_heat_map_value_annotations(trace, cells, colours, recommended),
            showlegend=False,
        ),
    }
    rows = [
        {"configuration": str(configuration), "loss": means[configuration], "seeds": len(losses[configuration])}
        for configuration in sorted(means, key=configuration_sort_key)
    ]
    sources = {source for configuration in means for source in configuration.source_by_statistic.values()}
    legend = ", ".join(
        f"{source.value}: {describe_origin(source, 'the mini-batch')}"
        for source in StatisticSource
        if source in sources and not source.is_absent
    )
    caption = (
        "Mean loss over seeds. Color: loss above the lowest one, on a logarithmic scale; darker is lower."
        f"{_marks_note(colours, has_recommended=recommended in means)} {legend}.{_missing_cells_note(missing)}"
    )
    return Chart("Loss of every configuration", caption, figure, rows)


def _missing_cells_traces(
    columns: Sequence[str], rows: Sequence[str], missing: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Grey cells of the configurations without a loss, with their reason as the hover text; none if all have one."""
    if not missing:
        return []
    return [
        {
            "type": "heatmap",
            "x": list(columns),
            "y": list(rows),
            "z": [[0 if row + column in missing else None for column in columns] for row in rows],
            "customdata": [[missing.get(row + column) for column in columns] for row in rows],
            "colorscale": [[0, NO_VALUE_COLOUR], [1, NO_VALUE_COLOUR]],
            "showscale": False,
            "hovertemplate": "%{y}%{x}: %{customdata}<extra></extra>",
        }
    ]


def _missing_cells_note(missing: Mapping[str, str]) -> str:
    """Why configurations have no loss, for the caption; empty if all have one."""
    by_reason: dict[str, list[str]] = {}
    for code, reason in missing.items():
        by_reason.setdefault(reason, []).append(code)
    reasons = "; ".join(f"{', '.join(codes)} ({reason})" for reason, codes in by_reason.items())
    return f" Grey cells have no loss: {reasons}." if missing else ""


def _marks_note(colours: DifferenceColours, *, has_recommended: bool) -> str:
    """What the marks of cells mean, for the caption; empty without marks."""
    above = f" {ABOVE}: above the color scale." if colours.is_cut else ""
    return f" {GLYPHS[RECOMMENDED]}: recommended.{above}" if has_recommended else above


def _heat_map_value_annotations(
    trace: Mapping[str, Any],
    losses: Mapping[str, float],
    colours: DifferenceColours,
    recommended: InferenceConfiguration | None,
) -> list[dict[str, Any]]:
    """Annotations with the losses of a heat map, white on dark colors and black on bright ones."""
    lowest = min(losses.values())
    labels = []
    for row, positions in zip(trace["y"], trace["z"], strict=True):
        for column, position in zip(trace["x"], positions, strict=True):
            if position is None:
                continue
            code = row + column
            marks = [
                GLYPHS[RECOMMENDED] if code == str(recommended) else "",
                ABOVE if losses[code] - lowest > colours.span else "",
            ]
            labels.append(
                {
                    "x": column,
                    "y": row,
                    "text": "<br>".join(filter(None, [*marks, format_loss(losses[code])])),
                    "showarrow": False,
                    "font": {"color": "black" if position >= _BRIGHT * trace["zmax"] else "white"},
                }
            )
    return labels


def switch_effects_chart(losses: ByConfiguration, *, unit: str = "nats") -> Chart | None:
    """Main effects and interactions of pairs of switches on the loss; None unless every configuration has a loss.

    Args:
        losses: Losses by seed of the configurations.
        unit: Unit of the loss; empty for a loss without one.
    """
    effects = compute_factorial_effects(losses)
    if effects is None:
        return None
    rows = [
        {
            "effect": effect.name,
            "loss": effect.size.mean,
            "low": effect.size.low,
            "high": effect.size.high,
            "seeds": effect.size.n,
        }
        for effect in effects
    ]
    has_intervals = effects[0].size.half is not None
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": [effect.size.mean for effect in effects],
        "y": [effect.name for effect in effects],
        "marker": {
            "size": 10,
            "color": [COLOURS[0] if effect.size.excludes_zero else COLOURS[7] for effect in effects],
            "symbol": ["circle" if effect.size.excludes_zero else "circle-open" for effect in effects],
        },
        "hovertemplate": "%{y}: %{x:+.5f}<extra></extra>",
    }
    if has_intervals:
        trace["error_x"] = {
            "type": "data",
            "array": [effect.size.half for effect in effects],
            "thickness": 1.5,
            "color": COLOURS[7],
        }
    figure = {
        "data": [trace],
        "layout": plotly_layout(
            axis_title("mean loss under T minus that under F", unit),
            "",
            yaxis={"type": "category", "autorange": "reversed"},
            xaxis={"zeroline": True, "zerolinewidth": 2},
            showlegend=False,
        ),
    }
    caption = "Left of zero: taking the statistic from the population (T) lowers the mean loss. " + (
        "Bars are 95 % confidence intervals over seeds; hollow marks are not significantly different from 0."
        if has_intervals
        else "With one seed there are no confidence intervals."
    )
    return Chart("Effects of the switches", caption, figure, rows)


def configuration_ranks_chart(settings: Mapping[RowKeyWithoutConfiguration, ByConfiguration]) -> Chart | None:
    """The rank of every configuration under several evaluation settings; None if fewer than two can be compared."""
    labels = unique_setting_labels(settings)
    return configuration_ranks_chart_by_label({labels[setting]: losses for setting, losses in settings.items()})


def configuration_ranks_chart_by_label(settings: Mapping[str, ByConfiguration]) -> Chart | None:
    """The rank of every configuration under each of several evaluation settings, in their order.

    Only settings with the most frequent set of configurations are compared, without blends if possible. Returns None
    for fewer than two.
    """
    counts = Counter(frozenset(losses) for losses in settings.values())
    most_frequent = max(
        counts,
        key=lambda configurations: (
            counts[configurations] > 1,
            not any(configuration.uses_blend for configuration in configurations),
            counts[configurations],
            len(configurations),
        ),
        default=frozenset(),
    )
    settings = {label: losses for label, losses in settings.items() if frozenset(losses) == most_frequent}
    if len(settings) < 2:
        return None
    ranks = {label: _rank_configurations_by_mean_loss(losses) for label, losses in settings.items()}
    configurations = sorted({key for by_key in ranks.values() for key in by_key}, key=configuration_sort_key)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": str(configuration),
            "x": [wrap_tick_label(label) for label in settings],
            "y": [by_key.get(configuration) for by_key in ranks.values()],
            "line": {
                "color": series_colour(position),
                "dash": DASHES[(position // len(COLOURS)) % len(DASHES)],
                "width": 2,
            },
            "marker": {"symbol": SYMBOLS[position % len(SYMBOLS)], "size": 9},
            "hovertemplate": f"{configuration}, %{{x}}: rank %{{y}}<extra></extra>",
        }
        for position, configuration in enumerate(configurations)
    ]
    figure = {
        "data": traces,
        "layout": plotly_layout(
            "evaluation setting",
            "rank by mean loss",
            yaxis={"range": [len(configurations) + 0.5, 0.5], "dtick": 1},
            xaxis={"type": "category"},
        ),
    }
    rows = [
        {
            "setting": label,
            "configuration": str(configuration),
            "rank": rank,
            "loss": statistics.fmean(settings[label][configuration].values()),
        }
        for label, by_key in ranks.items()
        for configuration, rank in by_key.items()
    ]
    caption = (
        "Rank 1 is the lowest mean loss under that evaluation setting. Lines cross where the order of configurations "
        "changes."
    )
    return Chart("Ranks by evaluation setting", caption, figure, rows)


def _rank_configurations_by_mean_loss(losses: ByConfiguration) -> dict[InferenceConfiguration, int]:
    means = {configuration: statistics.fmean(values.values()) for configuration, values in losses.items()}
    ordered = sorted(means, key=lambda configuration: (means[configuration], configuration_sort_key(configuration)))
    return {configuration: rank for rank, configuration in enumerate(ordered, start=1)}
