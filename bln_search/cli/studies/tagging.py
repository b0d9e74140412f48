"""Command `tag`: add tags to a study, or remove them."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import errors
from bln_search.cli.sources import open_client, service_address
from bln_search.cli.studies.wording import study_label
from bln_search.core.tags import normalize_tags
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_ledger


def tag(
    study: StudyArgument,
    tags: Annotated[list[str] | None, typer.Argument(metavar="[TAG]...", help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="A tag to remove; repeatable.")
    ] = None,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Add tags to a study, remove tags, and print those that it has."""
    changes = {"add_tags": normalize_tags(tags or ()), "remove_tags": normalize_tags(remove or ())}
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            found = client.study(study)
            label = study_label(found["id"], found["name"], found["owner"])
            present = client.update_study(found["id"], **changes)["tags"] if tags or remove else found["tags"]
    else:
        with closing(open_ledger(database or settings.database_url)) as ledger:
            record = ledger.studies.find(study)
            label = study_label(record.id, record.name, record.owner)
            ledger.queue.update(record.id, changes)
            present = ledger.studies.get(record.id).tags
    errors.print(
        f"{label} has {'the tags ' + ', '.join(present) if present else 'no tags'}", markup=False, highlight=False
    )
