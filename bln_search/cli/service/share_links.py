"""Commands for share links of studies: create, list, revoke."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, FormatOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import RecordsFormat, print_note
from bln_search.cli.records import print_records, time_to_iso_text
from bln_search.cli.sources.opening import get_study_to_change, open_ledger_or_client
from bln_search.core.errors import TokenManagementError
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.share_links import MAX_DAYS

app = typer.Typer(no_args_is_help=True)
_COLUMNS = ("id", "label", "account", "created_at", "expires_at", "revoked_at")


@app.command()
def create(
    study: StudyArgument,
    label: Annotated[str, typer.Option(metavar="TEXT", help="Text by which people recognize the link.")] = "",
    days: Annotated[int, typer.Option(min=1, max=MAX_DAYS, metavar="N", help="Days until it ends.")] = 30,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Create a link to a study and print it, once: its address, or without a service the path of its page."""
    with open_ledger_or_client(database, server, token) as opened:
        record = get_study_to_change(opened, study)
        if isinstance(opened, Ledger):
            expires_at = datetime.now(UTC) + timedelta(days=days)
            secret, _ = opened.share_links.create_link(record.id, _get_study_owner(record), label, expires_at)
            address = f"/shared/{secret}"
        else:
            link = opened.share_links.create(record.id, label, days)
            address, expires_at = link["url"], datetime.fromisoformat(link["expires_at"])
    print_note(f"the link ends at {expires_at:%Y-%m-%d %H:%M} UTC; it is not shown again")
    typer.echo(address)


@app.command("list")
def list_links(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output_format: FormatOption = RecordsFormat.TABLE,
) -> None:
    """List the links of a study, newest first, without their secrets; those that ended for 30 days."""
    with open_ledger_or_client(database, server, token) as opened:
        if isinstance(opened, Ledger):
            links = [vars(link) for link in opened.share_links.list_links(opened.studies.get_by_name_or_id(study).id)]
        else:
            links = opened.share_links.list_links(opened.study(study)["id"])
    records = [{name: time_to_iso_text(link[name]) for name in _COLUMNS} for link in links]
    if records or output_format is not RecordsFormat.TABLE:
        print_records(records, _COLUMNS, output_format, optional=("created_at", "label"))
    else:
        print_note("no link")


@app.command()
def revoke(
    study: StudyArgument,
    link_id: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the link in `share-link list`.", show_default=False)
    ],
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Revoke a link: it shows nothing from now on."""
    with open_ledger_or_client(database, server, token) as opened:
        opened.share_links.revoke(get_study_to_change(opened, study).id, link_id)
    print_note(f"link {link_id} is revoked")


def _get_study_owner(study: StudyRecord) -> str:
    """Return the owner of a study, whose account the link belongs to. Raises TokenManagementError without one."""
    if not study.owner:
        raise TokenManagementError(
            f"study {study.id} ({study.name}) belongs to no account: create the link over a service, with --server"
        )
    return study.owner
