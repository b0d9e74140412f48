"""The database of Optuna's own records: beside the ledger, never among its tables."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError

from bln_search.core.errors import LedgerError
from bln_search.storage.engine import read_session, write_session

SCHEMA = "optuna"


def optuna_url(engine: Engine) -> str:
    """The database URL of Optuna's records: a file beside a SQLite ledger, a schema of their own in Postgres."""
    url = engine.url
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise LedgerError("a study that samples its points needs a database in a file: give one with --database")
        ledger = Path(url.database)
        return url.set(database=str(ledger.with_name(f"{ledger.stem}.optuna{ledger.suffix}"))).render_as_string()
    schema = _postgres_schema(engine)
    options = " ".join(part for part in (str(url.query.get("options", "")), f"-csearch_path={schema}") if part)
    return url.update_query_dict({"options": options}).render_as_string(hide_password=False)


def _postgres_schema(engine: Engine) -> str:
    """The name of the schema of this ledger's samplers, which is created where it is missing."""
    with read_session(engine) as session:
        own = session.scalar(text("SELECT current_schema()"))
        schema = SCHEMA if own == "public" else f"{SCHEMA}_{own}"
        found = "SELECT 1 FROM information_schema.schemata WHERE schema_name = :name"
        if session.scalar(text(found), {"name": schema}):
            return schema
    try:
        with write_session(engine) as session:
            session.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    except ProgrammingError as error:
        raise LedgerError(
            f"the schema {schema} for the sampler's records cannot be made ({error.orig}): have it "
            "made by who may, owned by this role"
        ) from None
    return schema
