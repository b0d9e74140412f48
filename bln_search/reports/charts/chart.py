"""A figure with its data, and how figures look."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.ranking.grouping import Condition
from bln_search.specs.space import format_point_json

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#999999")
"""Told apart by the colour-blind, too (Okabe & Ito 2008); yellow and black, which vanish on light or dark, replaced."""

DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")


@dataclass(frozen=True)
class Chart:
    """title: what it shows. about: how to read it. figure: data and layout for Plotly. rows: what is drawn."""

    title: str
    about: str
    figure: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def csv(self) -> str:
        """The rows as CSV, empty where there is no value."""
        out = io.StringIO()
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def layout(x: str = "", y: str = "", **more: Any) -> dict[str, Any]:
    """Axes with their titles; colours of text and lines come from the page."""
    return {
        "xaxis": {"title": {"text": x}, "automargin": True, **more.pop("xaxis", {})},
        "yaxis": {"title": {"text": y}, "automargin": True, **more.pop("yaxis", {})},
        "margin": {"l": 60, "r": 20, "t": 20, "b": 50},
        "legend": {"orientation": "h", "y": -0.25},
        **more,
    }


def colour(position: int) -> str:
    """Of the n-th of several things."""
    return COLOURS[position % len(COLOURS)]


def clear(colour_code: str, share: float) -> str:
    """The colour, let through to a share."""
    red, green, blue = (int(colour_code[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


def condition_label(condition: Condition, among: Sequence[Condition]) -> str:
    """What sets a condition apart from the others."""
    parts = []
    if len({one.arm for one in among}) > 1:
        parts.append(condition.arm)
    if len({one.point for one in among}) > 1:
        parts.append(format_point_json(condition.point))
    if len({one.batch_size for one in among}) > 1:
        parts.append(f"batch {condition.batch_size}")
    if len({one.estimate for one in among}) > 1 or not parts:
        parts.append(condition.estimate or "no population")
    return ", ".join(parts)


def condition_labels(conditions: Iterable[Condition]) -> dict[Condition, str]:
    """Of each of these conditions its own label."""
    among = list(conditions)
    return dict(zip(among, distinct(condition_label(one, among) for one in among), strict=True))


def distinct(labels: Iterable[str]) -> list[str]:
    """The same labels, later ones of several alike with a number: rounded points may read the same."""
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def configuration_order(word: InferenceConfiguration | str) -> str:
    """T before M before F, as tables list them; of a word or a part of one."""
    return str(word).translate(str.maketrans("TMF-", "0123"))
