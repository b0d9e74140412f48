"""Keyset pagination: a page starts after the last row of the previous page, so that new rows do not shift it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, literal, tuple_
from sqlalchemy.orm import InstrumentedAttribute

Key = tuple[str | int | float, ...]
"""The values of the sort columns in the last row of a page."""

Sorts = Mapping[str, InstrumentedAttribute[Any]]
"""The columns that a list can be sorted by."""


@dataclass(frozen=True)
class PageRequest:
    """A page of a list.

    Attributes:
        limit: Number of rows on the page.
        sort: Name of a sort column; a leading minus reverses the order.
        after: Key of the last row of the previous page; None for the first page.
    """

    limit: int
    sort: str
    after: Key | None = None


def limit_to_page_plus_one(query: Any, page: PageRequest, sorts: Sorts, tie_breaker: InstrumentedAttribute[int]) -> Any:
    """Restrict a query to a page and one row more, which shows whether another page follows."""
    descending = page.sort.startswith("-")
    first = sorts[page.sort.removeprefix("-")]
    columns = (first,) if first is tie_breaker else (first, tie_breaker)
    if page.after is not None:
        position = tuple_(*columns)
        last = tuple_(*(literal(value, column.type) for value, column in zip(page.after, columns, strict=True)))
        query = query.where(position < last if descending else position > last)
    order = (column.desc() if descending else column.asc() for column in columns)
    return query.order_by(*order).limit(page.limit + 1)


def iter_equality_conditions(table: type[Any], values: Mapping[str, Any]) -> Iterator[ColumnElement[bool]]:
    """A condition for each column of `values`; columns whose value is None are not filtered."""
    return (getattr(table, name) == value for name, value in values.items() if value is not None)
