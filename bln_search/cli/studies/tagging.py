"""Command `tag`: add tags to a study, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
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
    added, removed = normalize_tags(tags or ()), set(remove or ())
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            found = client.study(study)
            label, present = study_label(found["id"], found["name"], found["owner"]), found["tags"]
            changed = _tags_after_change(present, added, removed)
            if set(changed) != set(present):
                client.update_study(found["id"], tags=changed)
    else:
        with closing(open_ledger(database or settings.database_url)) as ledger:
            record = ledger.studies.find(study)
            label = study_label(record.id, record.name, record.owner)
            changed = _tags_after_change(record.tags, added, removed)
            ledger.queue.update(record.id, {"tags": changed})
    errors.print(
        f"{label} has {'the tags ' + ', '.join(changed) if changed else 'no tags'}", markup=False, highlight=False
    )


def _tags_after_change(present: Sequence[str], added: Sequence[str], removed: set[str]) -> list[str]:
    """Return the tags afterwards. Raises TagError if they are too many."""
    return list(normalize_tags(({*present} - removed) | {*added}))
