"""Menus: the rows among which a chooser picks, as `("T", "B@N16", "E@0.9", "F")`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.blend import PopulationWeight
from bln_search.core.method import StatisticSource

DEFAULT_MENU = ("T", "B@N16", "E@0.9", "F")

_SOURCES = ("T", "B", "E", "F")
_SEPARATOR = "@"


@dataclass(frozen=True)
class MenuRow:
    """Where a row takes the mini-batch statistics from: w·stored + (1 − w)·mini-batch.

    Attributes:
        label: As in the menu.
        source: T, B, E or F.
        weight: w of B and E; None for T, with w = 1, and F, with w = 0.
    """

    label: str
    source: StatisticSource
    weight: PopulationWeight | None = None


def parse_menu(menu: Sequence[str]) -> tuple[MenuRow, ...]:
    """Return the rows of a menu. Raises ValueError unless it begins with T and has different, possible rows."""
    if isinstance(menu, str) or not isinstance(menu, Sequence) or not all(isinstance(each, str) for each in menu):
        raise ValueError(f'the menu is a list of rows, as in ["T", "B@N16", "E@0.9", "F"], not {menu!r}')
    rows = tuple(map(_parse_row, menu))
    if len(rows) < 2 or rows[0].source is not StatisticSource.POPULATION or len(set(menu)) < len(menu):
        raise ValueError(
            f"the menu {', '.join(menu) or 'is empty'}: it begins with T, the row without shift, and has at least one "
            "other row, each once"
        )
    return rows


def check_menu(menu: tuple[str, ...]) -> tuple[str, ...]:
    """Return a menu. Raises ValueError unless it is possible."""
    parse_menu(menu)
    return menu


def _parse_row(label: str) -> MenuRow:
    letter, separator, weight = label.partition(_SEPARATOR)
    if letter not in _SOURCES:
        raise ValueError(f"{label!r} is no row of a menu: its letter is one of {', '.join(_SOURCES)}")
    source = StatisticSource(letter)
    if source.description.has_row_weight != bool(separator):
        raise ValueError(
            f"{label!r} is no row of a menu: "
            + (f"remove the weight of {letter}" if separator else f"give the weight of {letter}, as in {letter}@0.9")
        )
    return MenuRow(label, source, PopulationWeight.parse(weight) if separator else None)
