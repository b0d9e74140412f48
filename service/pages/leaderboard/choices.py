"""Values of the filters that the leaderboard page offers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bln_search.ranking.condition_metrics import SUMMARIES
from bln_search.specs.sections.point_labels import find_distinct_value_digits
from bln_search.specs.sections.space import format_parameter_value, format_parameter_value_short
from service.caching.leaderboard_cache import CachedLeaderboard

_MAX_OPTIONS = 60
"""With more values, a parameter has a text field for a comparison."""


@dataclass(frozen=True)
class SelectFilter:
    """A filter with a list of values.

    Attributes:
        name: Parameter of the link.
        label: Its label.
        options: Value and text of each option beside `any`.
    """

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LeaderboardFilterChoices:
    """The filters of a study.

    Attributes:
        choices: Filters with at least two values.
        parameters: Names of all parameters of the study's points, in their order.
        compared: Names of the parameters with so many values that they are compared with a number.
    """

    choices: tuple[SelectFilter, ...]
    parameters: tuple[str, ...]
    compared: tuple[str, ...]


def make_leaderboard_filter_choices(board: CachedLeaderboard) -> LeaderboardFilterChoices:
    """Return the filters of a study."""
    rows = board.leaderboard.rows
    choices = [
        _make_select_filter("method", "Method", {spec.method.value for spec in board.spec.arms}),
        _make_select_filter("arm", "Arm", {row.arm for row in rows}),
        _make_select_filter("batch_size", "Batch size", {row.batch_size for row in rows}),
        _make_select_filter("estimate", "Population", {str(row.estimate) for row in rows if row.estimate}),
        _make_select_filter("state", "State", {row.state.value for row in rows}),
        _batch_dependence_filter(board),
        _condition_filter(board),
    ]
    values = {
        name: {_parameter_value_text(value): value for value in found}
        for name, found in board.distinct_parameter_values.items()
    }
    few = {name: by_text for name, by_text in values.items() if len(by_text) <= _MAX_OPTIONS}
    digits = {name: find_distinct_value_digits(by_text.values()) for name, by_text in few.items()}
    choices += [
        SelectFilter(
            "parameter",
            name,
            tuple(
                (f"{name}={text}", format_parameter_value_short(value, digits[name]))
                for text, value in sorted(by_text.items(), key=_numbers_first_sort_key)
            ),
        )
        for name, by_text in few.items()
    ]
    names = tuple(values)
    compared = tuple(name for name in names if name not in few)
    return LeaderboardFilterChoices(tuple(choice for choice in choices if len(choice.options) > 1), names, compared)


def _make_select_filter(name: str, label: str, values: set[Any]) -> SelectFilter:
    return SelectFilter(name, label, tuple((str(value), str(value)) for value in sorted(values)))


def _batch_dependence_filter(board: CachedLeaderboard) -> SelectFilter:
    of_each_configuration = {row.configuration.code: row for row in board.leaderboard.rows}
    present = {board.is_row_deterministic(row) for row in of_each_configuration.values()}
    options = (("true", "independent"), ("false", "dependent")) if len(present) > 1 else ()
    return SelectFilter("deterministic", "Mini-batch", options)


def _condition_filter(board: CachedLeaderboard) -> SelectFilter:
    names = (*board.leaderboard.condition_names, *SUMMARIES) if board.leaderboard.condition_names else ()
    return SelectFilter("condition", "Condition", tuple((name, name) for name in names))


def _parameter_value_text(value: Any) -> str:
    return (
        json.dumps(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else format_parameter_value(value)
    )


def _numbers_first_sort_key(item: tuple[str, Any]) -> tuple[bool, float, str]:
    text, value = item
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not is_number, float(value) if is_number else 0.0, text
