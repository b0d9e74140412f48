"""Commands for backups: backup, restore."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import DatabaseOption
from bln_search.cli.output import errors, results, translate_os_errors
from bln_search.settings import load_settings
from bln_search.storage.backups import Archive, Manifest, verify_backup
from bln_search.storage.ledger import connect_ledger

LocationArgument = Annotated[
    str, typer.Argument(help="Folder or URL (s3://bucket/folder) of backups.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(backup)
    app.command()(restore)


def backup(
    target: LocationArgument,
    database: DatabaseOption = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Keep this many backups, the newest, and remove the others.")
    ] = None,
) -> None:
    """Copy the database and its checkpoints into a backup. Service and workers may run meanwhile.

    Backups in one folder share their checkpoints: only new ones are copied. If networks are missing that the previous
    backup has, the exit code is 1 and no older backup is removed.
    """
    settings = load_settings()
    archive = Archive(target)
    with translate_os_errors(), closing(connect_ledger(database or settings.database_url)) as ledger:
        result = ledger.backups.create(
            settings.checkpoint_store, archive, settings.home, datetime.now(UTC), _print_progress
        )
        if keep is not None and not result.newly_absent:
            archive.remove_oldest(keep, datetime.now(UTC), _print_progress)
    already_stored = len(result.manifest.checkpoints) - result.copied
    _print(
        f"{archive}: backup {result.moment}, {_contents(result.manifest)} ({result.copied} copied, {already_stored} "
        "stored already)"
    )
    if result.newly_absent:
        _print_progress(
            f"{len(result.newly_absent)} networks are missing that the previous backup has: check that "
            f"BLN_SEARCH_CHECKPOINTS is their location ({settings.checkpoint_store}). No older backup was removed"
        )
        raise typer.Exit(ExitCode.FAILED)


def restore(
    source: LocationArgument,
    database: DatabaseOption = None,
    moment: Annotated[
        str | None, typer.Option("--backup", help="Moment in the file name of the backup; by default the newest.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the studies of the database.")] = False,
    without_damaged: Annotated[
        bool, typer.Option("--without-damaged", help="Restore without networks that are damaged or missing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only verify every file of the backup.")] = False,
) -> None:
    """Restore a backup into a database, SQLite or Postgres, and its checkpoint folder. Stop service and workers first.

    Every file is verified before anything is written. A study that was running goes back into the queue.
    """
    settings = load_settings()
    archive = Archive(source)
    manifest = archive.read_manifest(moment)
    with translate_os_errors(), closing(connect_ledger(database or settings.database_url)) as ledger:
        if not dry_run:
            ledger.backups.check_restore_target(overwrite=overwrite)
        with verify_backup(
            archive, manifest, settings.home, _print_progress, without_damaged=without_damaged
        ) as backup_files:
            summary = (
                f"{archive}: backup of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC, {_contents(backup_files.manifest)}"
            )
            if dry_run:
                _print(f"{summary}: every {'other ' if without_damaged else ''}file is intact")
                return
            written = ledger.backups.restore(
                backup_files, settings.checkpoint_store, _print_progress, overwrite=overwrite
            )
    already_stored = len(backup_files.manifest.checkpoints) - written
    _print(
        f"{summary} ({written} written, {already_stored} stored already), restored; {backup_files.running} "
        "studies wait to resume"
    )


def _contents(manifest: Manifest) -> str:
    size = (manifest.database.size + sum(file.size for file in manifest.checkpoints)) / 1e6
    missing = f", {len(manifest.absent)} MISSING" if manifest.absent else ""
    return f"{manifest.rows.get('study', 0)} studies, {len(manifest.checkpoints)} checkpoints{missing}, {size:,.1f} MB"


def _print_progress(line: str) -> None:
    errors.print(line, markup=False, highlight=False, soft_wrap=True)


def _print(line: str) -> None:
    results.print(line, markup=False, highlight=False, soft_wrap=True)
