"""Completion of names in the shell: `bln-search --install-completion` installs it."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import quote

import typer

from bln_search.core.errors import BlnSearchError


def complete_study_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of studies of the database that begin with a text; none if no database can be read.

    Nothing is written, and no service is asked.

    Args:
        ctx: The Typer context, with the options before the name.
        incomplete: The beginning of the name.
    """
    from bln_search.settings import find_sqlite_file, read_settings
    from bln_search.storage.ledger import open_ledger_without_schema_check

    try:
        settings = read_settings()
        database = ctx.params.get("database")
        if ctx.params.get("server") or (settings.server and database is None):
            return []
        url = database or settings.database_url
        file = find_sqlite_file(url)
        if file is not None:
            url = f"sqlite:///{quote(file.absolute().as_uri())}?mode=ro&uri=true"
        with closing(open_ledger_without_schema_check(url)) as ledger:
            return ledger.study_lists.list_names(incomplete)
    except BlnSearchError:  # the command itself reports it
        return []
