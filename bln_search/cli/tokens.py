"""Commands for access tokens of the database or a service: create, list, revoke."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, FormatOption, ServerOption, TokenOption
from bln_search.cli.output import Format, errors, results
from bln_search.cli.records import Record, print_records
from bln_search.cli.sources import open_client, service_address
from bln_search.core.enums import Scope
from bln_search.core.urls import redact_password
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_ledger

app = typer.Typer(help="Access tokens of a service: their scopes and expiry.", no_args_is_help=True)
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
        int | None, typer.Option(min=1, max=3650, metavar="N", help="Days until it expires; by default never.")
    ] = None,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Create a token and print its secret, once."""
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            created = client.create_token(account=account, scope=scope, label=label, days=days)
            secret, account = created["secret"], created["account"]
    else:
        account = "admin" if account is None else account
        expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
        with closing(open_ledger(database or settings.database_url)) as ledger:
            secret, _ = ledger.tokens.create(account, scope, label, expires_at=expires)
    errors.print(
        f"a token {_describe_database(service)} for {account} with the scope {scope}; its secret is not shown again",
        highlight=False,
    )
    typer.echo(secret)


@app.command("list")
def list_tokens(
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """List tokens, newest first, without their secrets."""
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            rows = client.tokens()
    else:
        with closing(open_ledger(database or settings.database_url)) as ledger:
            rows = [vars(record) for record in ledger.tokens.list_tokens(None)]
    records = [{name: _json_value(row[name]) for name in _COLUMNS} for row in rows]
    print_records(records, _COLUMNS, output_format, partial(_print_lines, records))


def _json_value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _print_lines(records: Sequence[Record]) -> None:
    for record in records:
        expiry = "no expiry"
        if record["revoked_at"]:
            expiry = "revoked"
        elif record["expires_at"]:
            expiry = f"expires {_format_date(record['expires_at'])}"
        line = (
            f"{record['id']:>4}  {record['account']:<16} {record['scope']:<6} "
            f"{_format_date(record['created_at'])}  {expiry}  {record['label']}"
        )
        results.print(line.rstrip(), markup=False, highlight=False)


def _format_date(moment: object) -> str:
    return str(moment)[:10]


@app.command()
def revoke(
    token_id: Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the token in `token list`.")],
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Revoke a token and its browser sessions at once."""
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            client.revoke_token(token_id)
    else:
        with closing(open_ledger(database or settings.database_url)) as ledger:
            ledger.tokens.revoke(token_id)
    errors.print(f"token {token_id} {_describe_database(service)} is revoked", highlight=False)


def _describe_database(service: str | None) -> str:
    return "of the database" if service is None else f"of {redact_password(service)}"
