"""A figure with its data, and the style of figures."""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.ranking.grouping import RowKeyWithoutConfiguration
from bln_search.specs.sections.point_labels import find_distinct_point_digits
from bln_search.specs.sections.space import format_encoded_point

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#999999")
"""Palette for colour-blind readers (Okabe & Ito 2008) without yellow and black, which vanish on some backgrounds."""

DASHES = ("solid", "dash", "dot", "dashdot")
_TICK_LETTERS = 24
"""Letters of a line of a tick label; a longer word has a line of its own."""

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")


@dataclass(frozen=True)
class Chart:
    """A figure with its data.

    Attributes:
        title: What the chart shows.
        caption: How to read it.
        figure: Data and layout for Plotly.
        rows: The drawn data.
    """

    title: str
    caption: str
    figure: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def rows_as_csv(self) -> str:
        """The rows as CSV; missing values are empty."""
        out = io.StringIO()
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def axis_title(quantity: str, unit: str) -> str:
    """A quantity with its unit, if it has one."""
    return f"{quantity} ({unit})" if unit else quantity


def plotly_layout(x: str = "", y: str = "", **options: Any) -> dict[str, Any]:
    """Layout for Plotly with titled axes. Colours of text and lines come from the page."""
    return {
        "xaxis": {"title": {"text": x}, "automargin": True, **options.pop("xaxis", {})},
        "yaxis": {"title": {"text": y}, "automargin": True, **options.pop("yaxis", {})},
        "margin": {"l": 60, "r": 20, "t": 20, "b": 50},
        "legend": {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0},
        **options,
    }


def series_colour(position: int) -> str:
    """Colour of the series at a position."""
    return COLOURS[position % len(COLOURS)]


def colour_with_opacity(colour_code: str, opacity: float) -> str:
    """A colour of COLOURS with an opacity between 0 and 1."""
    red, green, blue = (int(colour_code[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def distinguishing_setting_label(
    setting: RowKeyWithoutConfiguration, settings: Sequence[RowKeyWithoutConfiguration]
) -> str:
    """The attributes of an evaluation setting in which the settings differ."""
    parts = []
    if len({other.arm for other in settings}) > 1:
        parts.append(setting.arm)
    if len({other.point for other in settings}) > 1:
        digits = find_distinct_point_digits(other.point for other in settings)
        parts.append(format_encoded_point(setting.point, digits))
    if len({other.batch_size for other in settings}) > 1:
        parts.append(f"batch {setting.batch_size}")
    if len({other.estimate for other in settings}) > 1 or not parts:
        parts.append(setting.estimate or "no population")
    return ", ".join(parts)


def unique_setting_labels(settings: Iterable[RowKeyWithoutConfiguration]) -> dict[RowKeyWithoutConfiguration, str]:
    """A unique label for each evaluation setting."""
    listed = list(settings)
    return dict(
        zip(
            listed, make_labels_unique(distinguishing_setting_label(setting, listed) for setting in listed), strict=True
        )
    )


def make_labels_unique(labels: Iterable[str]) -> list[str]:
    """The labels, with a number after each repeated one: rounded points may have equal labels."""
    counts: Counter[str] = Counter()
    numbered = []
    for label in labels:
        counts[label] += 1
        numbered.append(label if counts[label] == 1 else f"{label} ({counts[label]})")
    return numbered


def wrap_tick_label(label: str) -> str:
    """The label in short lines, separated by `<br>` as Plotly needs; a part after a comma begins a line."""
    lines = (line for part in label.split(", ") for line in textwrap.wrap(part, _TICK_LETTERS, break_long_words=False))
    return "<br>".join(lines)


def configuration_sort_key(configuration: InferenceConfiguration | str) -> str:
    """Sort key of a configuration or of some of its letters: T before B before M before F."""
    return str(configuration).translate(str.maketrans("TBMF-", "01234"))
