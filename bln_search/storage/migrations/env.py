"""Run by Alembic; the connection comes from bln_search.storage.migration."""

from alembic import context

from bln_search.storage.migration import VERSION_TABLE
from bln_search.storage.tables import Table

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Table.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
