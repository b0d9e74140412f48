"""Insert many rows with few statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, func, insert, select
from sqlalchemy.orm import Session

from bln_search.storage.tables.base import Table as MappedTable


def insert_rows(session: Session, table: type[MappedTable], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, each with the same columns."""
    if rows:
        session.connection().execute(insert(_table(table)), rows)


def insert_rows_and_return_ids(
    session: Session, table: type[MappedTable], rows: Sequence[Mapping[str, Any]]
) -> Sequence[int]:
    """Insert rows, each with the same columns; returns their ids in the same order."""
    if not rows:
        return []
    connection, statement, column = session.connection(), insert(_table(table)), _table(table).c.id
    if connection.dialect.name != "sqlite":
        ids = statement.returning(column, sort_by_parameter_order=True)
        return connection.execute(ids, rows).scalars().all()
    # a transaction of SQLite is the only writer, and a new id is above all others
    last = connection.execute(select(func.max(column))).scalar() or 0
    connection.execute(statement, rows)
    return connection.execute(select(column).where(column > last).order_by(column)).scalars().all()


def _table(table: type[MappedTable]) -> Table:
    mapped = table.__table__
    assert isinstance(mapped, Table)
    return mapped
