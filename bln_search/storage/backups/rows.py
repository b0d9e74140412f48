"""Every row of one database written into another, of whatever kind the two are."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, func, insert, select, text

from bln_search.storage.tables import Table

_AT_ONCE = 200
"""Rows held in memory: some have a megabyte."""

_TABLES = Table.metadata.sorted_tables
"""Each after those that it refers to."""

_NUMBERED = tuple(table.name for table in _TABLES if "id" in table.columns)


def copy_rows(source: Connection, target: Connection) -> dict[str, int]:
    """Write the rows of `source` into the empty tables of `target`; returns how many, by table."""
    counts = {}
    for table in _TABLES:
        query = select(table).order_by(*table.primary_key).execution_options(yield_per=_AT_ONCE)
        counts[table.name] = 0
        for part in source.execute(query).mappings().partitions():
            target.execute(insert(table), [dict(row) for row in part])
            counts[table.name] += len(part)
    return counts


def delete_rows(target: Connection) -> None:
    """Empty every table."""
    for table in reversed(_TABLES):
        target.execute(delete(table))


def last_numbers(connection: Connection) -> dict[str, int]:
    """The last number given by each table, even where that row is gone."""
    found = {name: connection.scalar(select(func.max(Table.metadata.tables[name].c.id))) or 0 for name in _NUMBERED}
    if connection.dialect.name == "sqlite":
        given = {name: int(last) for name, last in connection.execute(text("SELECT name, seq FROM sqlite_sequence"))}
    else:
        given = {name: _last_of(connection, _sequence(connection, name)) for name in found}
    return {name: max(last, given.get(name, 0)) for name, last in found.items()}


def go_on_after(connection: Connection, numbers: Mapping[str, int]) -> None:
    """Have each table give higher numbers only."""
    for name, last in numbers.items():
        if connection.dialect.name != "sqlite":
            place = {"sequence": _sequence(connection, name), "last": max(last, 1), "given": last > 0}
            connection.execute(text("SELECT setval(:sequence, :last, :given)"), place)
        elif Table.metadata.tables[name].dialect_options["sqlite"]["autoincrement"]:
            row = {"name": name, "last": last}
            if not connection.execute(text("UPDATE sqlite_sequence SET seq = :last WHERE name = :name"), row).rowcount:
                connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), row)


def _last_of(connection: Connection, sequence: str) -> int:
    last = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608 - Postgres' own name
    return connection.scalar(text(last)) or 0


def _sequence(connection: Connection, table: str) -> str:
    return str(connection.scalar(text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": table}))
