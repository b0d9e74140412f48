"""Commands for backups: backup, backups, restore."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import DatabaseOption, FormatOption, LimitOption
from bln_search.cli.output import RecordsFormat, os_errors_as_output_errors, print_line, print_note, print_records_table
from bln_search.cli.records import Record, print_record, print_records
from bln_search.cli.sources.opening import find_existing_database
from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.names import format_count_with_noun
from bln_search.settings import load_settings
from bln_search.storage.backups.archive import BackupManifest, BackupStore, format_timestamp
from bln_search.storage.backups.create import create_backup
from bln_search.storage.backups.restore import (
    check_and_count_replaced_studies,
    open_verified_backup,
    restore_backup,
)
from bln_search.storage.ledger import Ledger, open_ledger_without_schema_check

LocationArgument = Annotated[
    str, typer.Argument(metavar="DIR", help="Folder or URL (s3://bucket/folder) of backups.", show_default=False)
]
_COLUMNS = ("moment", "studies", "checkpoints", "missing", "bytes", "source", "bln_search", "schema_revision")
_TABLE_COLUMNS = tuple("size" if name == "bytes" else name for name in _COLUMNS)


def backup(
    target: LocationArgument,
    database: DatabaseOption = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, metavar="N", help="Keep this many backups, the newest, and remove the others."),
    ] = None,
    output_format: FormatOption = RecordsFormat.TABLE,
) -> None:
    """Copy the database and its checkpoints into a backup. Service and workers may run meanwhile.

    Backups in one folder share their checkpoints: only new ones are copied. If networks are found to be lost, the exit
    code is 1 and no older backup is removed.
    """
    settings = load_settings()
    archive = BackupStore(target)
    with (
        os_errors_as_output_errors(),
        closing(open_ledger_without_schema_check(find_existing_database(database, settings))) as ledger,
    ):
        result = create_backup(
            ledger.database, settings.checkpoint_store, archive, settings.home, datetime.now(UTC), print_note
        )
        if keep is not None and not result.newly_absent:
            archive.remove_all_but_newest(keep, datetime.now(UTC), print_note)
        cause = _find_store_problem(ledger, settings.checkpoint_store) if result.newly_absent else None
    already_stored = len(result.manifest.checkpoints) - result.copied
    text = (
        f"{archive}: backup {result.moment}, {_describe_backup_contents(result.manifest)} ({result.copied} copied, "
        f"{already_stored} stored already)"
    )
    record = {**_manifest_to_record(result.manifest), "copied": result.copied}
    print_record(record, output_format, partial(print_line, text))
    if result.newly_absent:
        print_note(
            f"{format_count_with_noun(len(result.newly_absent), 'network is', 'networks are')} missing or damaged in "
            f"{settings.checkpoint_store}, and in no earlier backup: "
            f"{cause or 'check that BLN_SEARCH_CHECKPOINTS is their location'}"
            f"{'' if keep is None else '. No older backup was removed'}"
        )
        raise typer.Exit(ExitCode.FAILED)


def _find_store_problem(ledger: Ledger, checkpoints: CheckpointStore) -> str | None:
    """Return why a store is not that of the database; None if it is."""
    try:
        ledger.checkpoints.check_store(checkpoints)
    except CheckpointStoreError as error:
        return str(error)
    return None


def list_backups(
    source: LocationArgument, limit: LimitOption = None, output_format: FormatOption = RecordsFormat.TABLE
) -> None:
    """List the backups of a folder, newest first. `restore --backup MOMENT` restores one of them."""
    archive = BackupStore(source)
    with os_errors_as_output_errors():
        moments = archive.list_finished_timestamps()[::-1][:limit]
        records = [_manifest_to_record(archive.read_manifest(moment)) for moment in moments]
    print_records(records, _COLUMNS, output_format, partial(_print_backups_table, archive, records))


def _print_backups_table(archive: BackupStore, records: Sequence[Record]) -> None:
    if not records:
        print_note(f"{archive} has no backup")
        return
    rows = [{**record, "size": _format_megabytes(record["bytes"])} for record in records]
    print_records_table(rows, _TABLE_COLUMNS, optional=("schema_revision", "bln_search"))


def restore(
    source: LocationArgument,
    database: DatabaseOption = None,
    moment: Annotated[
        str | None,
        typer.Option("--backup", metavar="MOMENT", help="Moment of the backup in `backups`; by default the newest."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the studies of the database.")] = False,
    without_damaged: Annotated[
        bool, typer.Option("--without-damaged", help="Restore without networks that are damaged or missing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only verify every file of the backup.")] = False,
    output_format: FormatOption = RecordsFormat.TABLE,
) -> None:
    """Restore a backup into a database, SQLite or Postgres, and its checkpoint folder. Stop service and workers first.

    Every file is verified before anything is written. A study that was running goes back into the queue.
    """
    settings = load_settings()
    archive = BackupStore(source)
    manifest = archive.read_manifest(moment)
    url = settings.checked_database_url(database)
    scratch = Path(tempfile.gettempdir()) if dry_run and not settings.home.is_dir() else settings.home
    written = replaced = 0
    with os_errors_as_output_errors(), ExitStack() as stack:
        ledger = None if dry_run else stack.enter_context(closing(open_ledger_without_schema_check(url)))
        if ledger is not None:
            replaced = check_and_count_replaced_studies(ledger.database, overwrite=overwrite)
        backup_files = stack.enter_context(
            open_verified_backup(archive, manifest, scratch, print_note, without_damaged=without_damaged)
        )
        if ledger is not None:
            written = restore_backup(
                backup_files, ledger.database, settings.checkpoint_store, print_note, overwrite=overwrite
            )
    has_left_out = len(backup_files.manifest.absent) > len(manifest.absent)
    manifest = backup_files.manifest
    summary = f"{archive}: backup of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC, {_describe_backup_contents(manifest)}"
    if dry_run:
        text = f"{summary}: every {'other ' if has_left_out else ''}file is intact"
    else:
        text = (
            f"{summary} ({written} written, {len(manifest.checkpoints) - written} stored already), restored; "
            f"{format_count_with_noun(replaced, 'study', 'studies')} of the database replaced; "
            f"{format_count_with_noun(backup_files.waiting, 'study waits', 'studies wait')} to resume"
        )
    record = {
        **_manifest_to_record(manifest),
        "restored": not dry_run,
        "written": written,
        "replaced_studies": replaced,
        "waiting_studies": backup_files.waiting,
    }
    print_record(record, output_format, partial(print_line, text))


def _manifest_to_record(manifest: BackupManifest) -> Record:
    return {
        "moment": format_timestamp(manifest.made_at),
        "studies": manifest.rows.get("study", 0),
        "checkpoints": len(manifest.checkpoints),
        "missing": len(manifest.absent),
        "bytes": manifest.database.size + sum(file.size for file in manifest.checkpoints),
        "source": manifest.source,
        "bln_search": manifest.bln_search,
        "schema_revision": manifest.schema_revision,
    }


def _describe_backup_contents(manifest: BackupManifest) -> str:
    record = _manifest_to_record(manifest)
    missing = f", {record['missing']} MISSING" if record["missing"] else ""
    size = _format_megabytes(record["bytes"])
    studies = format_count_with_noun(manifest.rows.get("study", 0), "study", "studies")
    checkpoints = format_count_with_noun(len(manifest.checkpoints), "checkpoint", "checkpoints")
    return f"{studies}, {checkpoints}{missing}, {size}"


def _format_megabytes(size: object) -> str:
    return f"{float(str(size)) / 1e6:,.1f} MB"
