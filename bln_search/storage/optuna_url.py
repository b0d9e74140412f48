"""The URL of the database with Optuna's records, which are stored apart from the tables of the ledger."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError

from bln_search.core.errors import LedgerError
from bln_search.storage.engine import read_session, write_session

SCHEMA = "optuna"


def prepare_optuna_url_and_schema(engine: Engine) -> tuple[str, str | None]:
    """The URL of a file beside a SQLite ledger, or the ledger's Postgres database and its schema, which is created.

    Raises:
        LedgerError: The ledger is in memory, or the schema cannot be created.
    """
    url = engine.url
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise LedgerError("a study that samples its points needs a database in a file: give one with --database")
        ledger = Path(url.database)
        records = ledger.with_name(f"{ledger.stem}.optuna{ledger.suffix}")
        return url.set(database=str(records)).render_as_string(), None
    return url.render_as_string(hide_password=False), _create_optuna_schema(engine)


def _create_optuna_schema(engine: Engine) -> str:
    """The name of the schema of Optuna's records, which is created if it does not exist."""
    with read_session(engine) as session:
        ledger_schema = session.scalar(text("SELECT current_schema()"))
        schema = SCHEMA if ledger_schema == "public" else f"{SCHEMA}_{ledger_schema}"
        query = "SELECT 1 FROM information_schema.schemata WHERE schema_name = :name"
        if session.scalar(text(query), {"name": schema}):
            return schema
    try:
        with write_session(engine) as session:
            session.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    except LedgerError as error:
        if not isinstance(error.__cause__, ProgrammingError):
            raise
        raise LedgerError(
            f"the schema {schema} for Optuna's records cannot be created ({error.__cause__.orig}): let a role that may "
            "create schemas create it with this role as its owner"
        ) from None
    return schema
