"""The rows of a database, for comparisons."""

from __future__ import annotations

from sqlalchemy import select

from bln_search.storage.engine import read_session
from bln_search.storage.tables import Table


def read_all_rows(engine):
    with read_session(engine) as session:
        return {
            table.name: [tuple(row) for row in session.execute(select(table).order_by(*table.primary_key))]
            for table in Table.metadata.sorted_tables
        }
