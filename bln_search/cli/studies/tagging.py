"""Command `tag`: add tags to a study, or remove them."""

from __future__ import annotations

from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import errors
from bln_search.cli.sources import open_ledger_or_client
from bln_search.cli.studies.wording import format_study_label
from bln_search.core.tags import check_and_sort_unique_tags
from bln_search.storage.ledger import Ledger


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
    changes = {
        "add_tags": check_and_sort_unique_tags(tags or ()),
        "remove_tags": check_and_sort_unique_tags(remove or ()),
    }
    with open_ledger_or_client(database, server, token) as opened:
        if isinstance(opened, Ledger):
            record = opened.studies.get_by_name_or_id(study)
            label = format_study_label(record.id, record.name, record.owner)
            opened.queue.update_study_metadata(record.id, changes)
            present = opened.studies.get(record.id).tags
        else:
            found = opened.study(study)
            label = format_study_label(found["id"], found["name"], found["owner"])
            present = opened.update_study(found["id"], **changes)["tags"] if tags or remove else found["tags"]
    errors.print(
        f"{label} has {'the tags ' + ', '.join(present) if present else 'no tags'}", markup=False, highlight=False
    )
