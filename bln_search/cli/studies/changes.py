"""Commands that change a study: tag, delete."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import DatabaseOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import print_error, print_note
from bln_search.cli.sources.opening import get_study_to_change, open_ledger_or_client
from bln_search.cli.studies.wording import format_study_label
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.tags import check_and_sort_unique_tags
from bln_search.settings import Settings, load_settings
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
        record = get_study_to_change(opened, study)
        label = format_study_label(record.id, record.name, record.owner)
        if isinstance(opened, Ledger):
            opened.queue.update_study_metadata(record.id, changes)
            present = opened.studies.get(record.id).tags
        else:
            present = opened.update_study(record.id, **changes)["tags"] if tags or remove else record.tags
    print_note(f"{label} has {'the tags ' + ', '.join(present) if present else 'no tags'}")


def delete(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without confirmation.")] = False,
) -> None:
    """Delete a study with all its results and networks. A study that a live process runs is refused.

    Networks that another study needs are kept.
    """
    settings = load_settings()
    with open_ledger_or_client(database, server, token) as opened:
        record = get_study_to_change(opened, study)
        label = format_study_label(record.id, record.name, record.owner)
        _confirm_deletion(label, yes=yes)
        if isinstance(opened, Ledger):
            is_other_database = database not in (None, settings.database_url)
            _delete_from_database(opened, record.id, settings, is_other_database=is_other_database)
        else:
            opened.delete(record.id)
    print_note(f"{label} is deleted")


def _confirm_deletion(label: str, *, yes: bool) -> None:
    """Ask for confirmation. Raises Abort without one; exits with code 2 if nobody can be asked."""
    if yes:
        return
    if not _is_terminal_interactive():
        print_error(f"deleting {label} needs a confirmation: give --yes")
        raise typer.Exit(ExitCode.USAGE)
    typer.confirm(f"delete {label} with all its results?", abort=True)


def _is_terminal_interactive() -> bool:
    return sys.stdin.isatty()


def _delete_from_database(ledger: Ledger, study_id: int, settings: Settings, *, is_other_database: bool) -> None:
    """Delete a study and the checkpoint files that no other study needs.

    Args:
        ledger: The ledger.
        study_id: The study.
        settings: Their checkpoint store belongs to their database.
        is_other_database: The database is not that of the settings: its checkpoint store is unknown.
    """
    files = ledger.studies.delete_and_list_unneeded_files(study_id)
    reason = "BLN_SEARCH_CHECKPOINTS may belong to another database" if is_other_database else None
    if reason is None:
        try:
            ledger.garbage.remove_unreferenced_files(settings.checkpoint_store, files)
        except (OSError, CheckpointStoreError) as error:
            reason = str(error)
    if files and reason is not None:
        print_note(
            f"{len(files)} checkpoint files are not removed ({reason}): `bln-search checkpoints clean` removes them",
        )
