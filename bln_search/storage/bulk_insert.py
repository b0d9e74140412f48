"""Insert many rows with one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, Insert, LargeBinary, Table, cast, column, func, insert, literal, select
from sqlalchemy.orm import Session

from bln_search.storage.tables.base import Table as MappedTable

_POSITION = "position_in_insert"


def insert_rows(session: Session, table: type[MappedTable], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, each with the same columns."""
    if not rows:
        return
    connection = session.connection()
    has_blobs = any(isinstance(each.type, LargeBinary) for each in _table(table).c)
    if connection.dialect.name == "postgresql" and not has_blobs:
        connection.execute(_insert_arrays(_table(table), rows))
    else:
        connection.execute(insert(_table(table)), rows)


def insert_rows_and_return_ids(
    session: Session, table: type[MappedTable], rows: Sequence[Mapping[str, Any]]
) -> Sequence[int]:
    """Insert rows, each with the same columns; returns their ids in the same order."""
    if not rows:
        return []
    connection, id_column = session.connection(), _table(table).c.id
    if connection.dialect.name == "postgresql":
        return sorted(connection.execute(_insert_arrays(_table(table), rows).returning(id_column)).scalars())
    # a transaction of SQLite is the only writer, and a new id is above all others
    last = connection.execute(select(func.max(id_column))).scalar() or 0
    connection.execute(insert(_table(table)), rows)
    return connection.execute(select(id_column).where(id_column > last).order_by(id_column)).scalars().all()


def _insert_arrays(table: Table, rows: Sequence[Mapping[str, Any]]) -> Insert:
    """INSERT … SELECT … FROM unnest(…): one array for each column, where VALUES would have a parameter for each value.

    The rows are ordered, so Postgres assigns ascending ids to them.
    """
    names = list(rows[0])
    arrays = []
    for name in names:
        array_type = ARRAY(table.c[name].type)
        arrays.append(cast(literal([row[name] for row in rows], array_type), array_type))
    columns = [column(name, table.c[name].type) for name in names]
    given = func.unnest(*arrays).table_valued(*columns, with_ordinality=_POSITION).render_derived(name="given")
    ordered = select(*(given.c[name] for name in names)).order_by(given.c[_POSITION])
    return insert(table).from_select(names, ordered)


def _table(table: type[MappedTable]) -> Table:
    mapped = table.__table__
    assert isinstance(mapped, Table)
    return mapped
