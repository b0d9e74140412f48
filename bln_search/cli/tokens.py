"""Commands for access tokens of the database or a service: create, list, revoke."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, ServerOption, TokenOption
from bln_search.cli.output import errors, results
from bln_search.cli.sources import open_client, service_address
from bln_search.core.enums import Scope
from bln_search.core.urls import redact_password
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_ledger

app = typer.Typer(help="Access tokens of a service: their scopes and expiry.", no_args_is_help=True)


@app.command()
def create(
    account: Annotated[
        str | None,
        typer.Option(help="Account; by default your own at a service, otherwise `admin`.", show_default=False),
    ] = None,
    scope: Annotated[Scope, typer.Option(help="read, write or admin.")] = Scope.WRITE,
    label: Annotated[str, typer.Option(help="Purpose of the token.")] = "",
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires; by default never.")] = None,
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
        f"a token {_location(service)} for {account} with the scope {scope}; its secret is not shown again",
        highlight=False,
    )
    typer.echo(secret)


@app.command("list")
def list_tokens(database: DatabaseOption = None, server: ServerOption = None, token: TokenOption = None) -> None:
    """List tokens, newest first, without their secrets."""
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            rows = client.tokens()
    else:
        with closing(open_ledger(database or settings.database_url)) as ledger:
            rows = [
                {
                    **vars(record),
                    "created_at": record.created_at.isoformat(),
                    "expires_at": record.expires_at and str(record.expires_at),
                }
                for record in ledger.tokens.list_tokens(None)
            ]
    for row in rows:
        expiry = (
            "revoked"
            if row["revoked_at"]
            else f"expires {row['expires_at'][:10]}"
            if row["expires_at"]
            else "no expiry"
        )
        line = (
            f"{row['id']:>4}  {row['account']:<16} {row['scope']:<6} {row['created_at'][:10]}  {expiry}  {row['label']}"
        )
        results.print(line.rstrip(), markup=False, highlight=False)


@app.command()
def revoke(
    token_id: Annotated[int, typer.Argument(help="Number of the token in `token list`.")],
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
    errors.print(f"token {token_id} {_location(service)} is revoked", highlight=False)


def _location(service: str | None) -> str:
    return "of the database" if service is None else f"of {redact_password(service)}"
