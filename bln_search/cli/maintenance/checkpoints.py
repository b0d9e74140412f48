"""Command for checkpoints: clean."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from bln_search.cli.options import DatabaseOption, FormatOption
from bln_search.cli.output import RecordsFormat, os_errors_as_output_errors, print_line, print_note
from bln_search.cli.records import Record, print_record
from bln_search.cli.sources.opening import find_existing_database
from bln_search.core.urls import redact_password
from bln_search.settings import load_settings
from bln_search.storage.checkpoints.garbage import MIN_AGE, remove_and_count_garbage
from bln_search.storage.ledger import open_and_upgrade_ledger

app = typer.Typer(no_args_is_help=True)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class NetworkKeepPolicy(StrEnum):
    """Networks of complete studies that are kept."""

    ALL = "all"
    RECOMMENDED = "recommended"


@app.callback()
def _keep_command_group() -> None:
    """Keep the group: Typer would otherwise replace it by its only command."""


@app.command()
def clean(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Only files older than this: 90m, 12h, 7d; at least 1h.")
    ] = "1d",
    keep: Annotated[
        NetworkKeepPolicy,
        typer.Option("--keep", help="Networks of complete studies to keep: all, or those of recommended rows."),
    ] = NetworkKeepPolicy.ALL,
    best: Annotated[
        int,
        typer.Option(
            "--best", min=0, metavar="N", help="With --keep recommended: also keep those of this many first rows."
        ),
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    database: DatabaseOption = None,
    output_format: FormatOption = RecordsFormat.TABLE,
) -> None:
    """Remove checkpoint files that no study needs. Service and workers may run meanwhile.

    These are partly written files, networks of trials that were pruned, diverged or were trained again, and networks of
    deleted studies. With --keep recommended, the other networks of complete studies are removed too; their results are
    kept, and the recommended network is never removed.
    """
    age = _parse_age(older_than)
    settings = load_settings()
    store = settings.checkpoint_store
    if database not in (None, settings.database_url):
        raise typer.BadParameter(
            f"files in {store} may belong to {redact_password(settings.database_url)}: set BLN_SEARCH_DATABASE to the "
            "database and BLN_SEARCH_CHECKPOINTS to the location of its checkpoints",
            param_hint="--database",
        )
    with (
        os_errors_as_output_errors(),
        closing(open_and_upgrade_ledger(find_existing_database(None, settings))) as ledger,
    ):
        prunable = (
            ledger.prunable_files.list_prunable_files_by_study(best) if keep is NetworkKeepPolicy.RECOMMENDED else []
        )
        garbage = ledger.garbage.find_garbage(store, age, prunable)
        if not dry_run:
            ledger.prunable_files.mark_files_as_freed(prunable)
        removed, size = (
            (len(garbage.files), garbage.removable_bytes) if dry_run else remove_and_count_garbage(store, garbage)
        )
    for networks in prunable:
        if networks.reason is not None:
            print_note(f"study {networks.study_id} ({networks.name}) keeps all networks: {networks.reason}")
    record: dict[str, object] = {
        "removed": not dry_run,
        "files": removed,
        "bytes": size,
        "networks": sum(len(networks.files) for networks in prunable),
        "too_recent": garbage.too_recent,
        "unknown": garbage.unknown,
    }
    print_record(record, output_format, partial(_print_removal_summary, record))


def _parse_age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration: write 90m, 12h or 7d", param_hint="--older-than")
    age = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if age < MIN_AGE:
        raise typer.BadParameter(
            "newer files may belong to a running trial: use at least 1h", param_hint="--older-than"
        )
    return age


def _print_removal_summary(record: Record) -> None:
    verb = "removed" if record["removed"] else "would be removed"
    parts = [f"{record['files']} files {verb}, {float(str(record['bytes'])) / 1e6:,.1f} MB"]
    if record["networks"]:
        parts.append(f"{record['networks']} networks {verb} from their studies")
    if record["too_recent"]:
        parts.append(f"{record['too_recent']} are too recent")
    if record["unknown"]:
        parts.append(f"{record['unknown']} are unknown and kept")
    print_line("; ".join(parts))
