"""Copies every row of one database into another, between SQLite and Postgres in any direction."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, func, insert, select, text

from bln_search.storage.tables import CheckpointStoreRow, ExportRow, Table

_BATCH = 200
"""Number of rows in memory: some rows have a megabyte."""

_TABLES = Table.metadata.sorted_tables
"""The tables in an order in which every table follows those that it refers to."""

_OF_THIS_DATABASE = CheckpointStoreRow.__tablename__
"""The table of the checkpoint store, which is that of one database, not of its copies."""

_NOT_COPIED = (ExportRow.__tablename__, _OF_THIS_DATABASE)
"""Tables that are empty in a copy: backups do not contain the archives of exports."""

_TABLES_WITH_ID = tuple(table.name for table in _TABLES if "id" in table.columns)


def copy_and_count_all_rows(source: Connection, target: Connection) -> dict[str, int]:
    """Copy the rows of `source` into the empty tables of `target`; returns their number by table.

    Exports and the checkpoint store are left out.
    """
    counts = {}
    for table in _TABLES:
        query = select(table).order_by(*table.primary_key).execution_options(yield_per=_BATCH)
        counts[table.name] = 0
        if table.name in _NOT_COPIED:
            continue
        for batch in source.execute(query).mappings().partitions():
            target.execute(insert(table), [dict(row) for row in batch])
            counts[table.name] += len(batch)
    return counts


def delete_all_rows(target: Connection) -> None:
    """Delete every row of every table, except its checkpoint store."""
    for table in reversed(_TABLES):
        if table.name != _OF_THIS_DATABASE:
            target.execute(delete(table))


def read_last_assigned_ids(connection: Connection) -> dict[str, int]:
    """The last id that each table has assigned, even where that row was deleted."""
    highest = {
        name: connection.scalar(select(func.max(Table.metadata.tables[name].c.id))) or 0 for name in _TABLES_WITH_ID
    }
    if connection.dialect.name == "sqlite":
        assigned = {name: int(last) for name, last in connection.execute(text("SELECT name, seq FROM sqlite_sequence"))}
    else:
        assigned = {
            name: _read_sequence_value(connection, _find_postgres_sequence_name(connection, name)) for name in highest
        }
    return {name: max(last, assigned.get(name, 0)) for name, last in highest.items()}


def set_last_assigned_ids(connection: Connection, values: Mapping[str, int]) -> None:
    """Set the sequence of each table, so that it assigns only ids above its value."""
    for name, last in values.items():
        if connection.dialect.name != "sqlite":
            parameters = {
                "sequence": _find_postgres_sequence_name(connection, name),
                "last": max(last, 1),
                "is_called": last > 0,
            }
            connection.execute(text("SELECT setval(:sequence, :last, :is_called)"), parameters)
        elif Table.metadata.tables[name].dialect_options["sqlite"]["autoincrement"]:
            row = {"name": name, "last": last}
            if not connection.execute(text("UPDATE sqlite_sequence SET seq = :last WHERE name = :name"), row).rowcount:
                connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), row)


def _read_sequence_value(connection: Connection, sequence: str) -> int:
    last = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608 - Postgres' own name
    return connection.scalar(text(last)) or 0


def _find_postgres_sequence_name(connection: Connection, table: str) -> str:
    return str(connection.scalar(text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": table}))
