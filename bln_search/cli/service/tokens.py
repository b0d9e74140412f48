"""Commands for access tokens of the database or a service: create, list, revoke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, FormatOption, ServerOption, TokenOption
from bln_search.cli.output import RecordsFormat, print_note, print_records_table
from bln_search.cli.records import print_records, time_to_iso_text
from bln_search.cli.sources.opening import (
    find_existing_database,
    find_service_address,
    open_ledger_or_client,
    open_service_client,
)
from bln_search.core.enums import Scope
from bln_search.core.names import format_count_with_noun
from bln_search.core.urls import redact_password
from bln_search.settings import load_settings
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger, open_ledger_without_schema_check

app = typer.Typer(no_args_is_help=True)
_COLUMNS = ("id", "account", "scope", "label", "created_at", "expires_at", "revoked_at")


@app.command()
def create(
    account: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Account; by default your own at a service, otherwise `admin`.", show_default=False
        ),
    ] = None,
    scope: Annotated[Scope, typer.Option(help="read, write or admin.")] = Scope.WRITE,
    label: Annotated[str, typer.Option(metavar="TEXT", help="Purpose of the token.")] = "",
    days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=3650,
            metavar="N",
            help="Days until it expires; by default never, or when the token expires that creates it.",
        ),
    ] = None,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Create a token and print its secret, once."""
    settings = load_settings()
    service = find_service_address(database, server, settings)
    if service is not None:
        with open_service_client(service, token, settings) as client:
            created = client.create_token(account=account, scope=scope, label=label, days=days)
            secret, account = created["secret"], created["account"]
        location = _service_phrase(service)
    else:
        account = "admin" if account is None else account
        expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
        with closing(open_ledger_without_schema_check(settings.checked_database_url(database))) as ledger:
            is_new = ledger.find_schema_revision() is None
            ledger.upgrade_schema()
            secret, _ = ledger.tokens.create_token(account, scope, label, expires_at=expires)
            location = _database_phrase(ledger)
        if is_new:
            print_note(
                f"warning: the database {ledger} did not exist and is created: the token is valid only for a service "
                "with this database; otherwise set BLN_SEARCH_HOME or BLN_SEARCH_DATABASE, or give --database",
            )
    print_note(
        f"a token {location} for {account} with the scope {scope}; its secret is not shown again",
    )
    typer.echo(secret)


@app.command("list")
def list_tokens(
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output_format: FormatOption = RecordsFormat.TABLE,
) -> None:
    """List tokens, newest first, without their secrets."""
    with open_ledger_or_client(database, server, token) as opened:
        if isinstance(opened, Ledger):
            rows = [vars(record) for record in opened.tokens.list_tokens(None)]
        else:
            rows = opened.tokens()
    records = [{name: time_to_iso_text(row[name]) for name in _COLUMNS} for row in rows]
    if records or output_format is not RecordsFormat.TABLE:
        print_records(records, _COLUMNS, output_format, partial(_print_token_table, rows))
    else:
        print_note("no token")


def _print_token_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table whose times are UTC, as a service and another machine name them."""
    headers = {name: f"{name} (UTC)" if name.endswith("_at") else name for name in _COLUMNS}
    cells = [{headers[name]: _format_utc_cell(name, row[name]) for name in _COLUMNS} for row in rows]
    print_records_table(cells, tuple(headers.values()), optional=(headers["created_at"], "label"))


def _format_utc_cell(name: str, value: object) -> object:
    """A time in UTC to the minute; any other value as it is. Services return times as text."""
    if not name.endswith("_at") or value is None:
        return value
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


@app.command()
def revoke(
    token_id: Annotated[
        int | None, typer.Argument(metavar="NUMBER", help="Number of the token in `token list`.", show_default=False)
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", metavar="NAME", help="Revoke all tokens of this account.")
    ] = None,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Revoke a token, or all tokens of an account, and their browser sessions at once.

    Tokens that were created with a revoked token stay valid; --account revokes those of one account together.
    """
    if (token_id is None) == (account is None):
        raise typer.BadParameter("give either the number of a token or --account", param_hint="NUMBER, --account")
    settings = load_settings()
    service = find_service_address(database, server, settings)
    if service is not None:
        with open_service_client(service, token, settings) as client:
            revoked = None if account is None else client.revoke_tokens(account)["revoked"]
            if token_id is not None:
                client.revoke_token(token_id)
        location = _service_phrase(service)
    else:
        with closing(open_and_upgrade_ledger(find_existing_database(database, settings))) as ledger:
            revoked = None if account is None else ledger.tokens.revoke_account_credentials(account)
            if token_id is not None:
                ledger.tokens.revoke(token_id)
            location = _database_phrase(ledger)
    what = (
        f"token {token_id}" if revoked is None else f"{format_count_with_noun(revoked, 'token', 'tokens')} of {account}"
    )
    verb = "is" if revoked in (None, 1) else "are"
    print_note(f"{what} {location} {verb} revoked")


def _service_phrase(address: str) -> str:
    return f"of the service {redact_password(address)}"


def _database_phrase(ledger: Ledger) -> str:
    return f"of the database {ledger}"
