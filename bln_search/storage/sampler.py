"""Where a sampler keeps its own records: beside the ledger, never among its tables."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, text

from bln_search.storage.engine import writing

SCHEMA = "optuna"


def sampler_url(engine: Engine) -> str:
    """The database URL of Optuna's records: a file beside a SQLite ledger, a schema of its own in Postgres."""
    url = engine.url
    if url.get_backend_name() == "sqlite":
        assert url.database is not None
        ledger = Path(url.database)
        return url.set(database=str(ledger.with_name(f"{ledger.stem}.optuna{ledger.suffix}"))).render_as_string()
    with writing(engine) as session:
        session.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    own = url.update_query_dict({"options": f"-csearch_path={SCHEMA}"})
    return own.render_as_string(hide_password=False)
