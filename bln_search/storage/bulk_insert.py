"""Insert many rows with few statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, insert
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
    connection, statement = session.connection(), insert(_table(table))
    if connection.dialect.insert_returning:
        ids = statement.returning(_table(table).c.id, sort_by_parameter_order=True)
        return connection.execute(ids, rows).scalars().all()
    keys = (connection.execute(statement, row).inserted_primary_key for row in rows)  # SQLite before 3.35
    return [key[0] for key in keys if key is not None]


def _table(table: type[MappedTable]) -> Table:
    mapped = table.__table__
    assert isinstance(mapped, Table)
    return mapped
