"""The order of rows by the cells of a column: numbers by value, texts with their numbers by value."""

from __future__ import annotations

import re

from bln_search.reports.tables.columns import EMPTY_CELLS, CellKind, Column

_NUMBER = re.compile(r"[+\-−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
_BOUNDS = {"<": -1, "≤": -1, ">": 1, "≥": 1}
"""A cell that is a bound comes before or after its number."""

_Key = tuple[tuple[int, float, str], ...]


def rank_rows(column: Column, rows: int) -> list[int | None] | None:
    """The place of each of the first rows in ascending order, equal for equal cells.

    Returns:
        One for each row, None for a row without a value; None for a column in which all rows are equal.
    """
    make_key = _number_key if column.kind is CellKind.NUMBER else _text_key
    keys = [None if str(cell) in EMPTY_CELLS else make_key(str(cell).strip()) for cell in column.cells[:rows]]
    places = {key: place for place, key in enumerate(sorted({key for key in keys if key is not None}))}
    if len(set(keys)) < 2:
        return None
    return [None if key is None else places[key] for key in keys]


def _number_key(cell: str) -> _Key:
    """The first number, or the text after all numbers."""
    match = _NUMBER.search(cell)
    if match is None:
        return ((1, 0.0, cell.casefold()),)
    value = float(match[0].replace(",", "").replace("−", "-"))
    return ((0, value, ""), (0, _BOUNDS.get(cell[:1], 0), ""))


def _text_key(cell: str) -> _Key:
    """Texts and numbers in turn, so that `bn 2` comes before `bn 10`."""
    parts = re.split(r"(\d{1,15})", cell.casefold())
    return tuple((0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part)
