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
        int | None, typer.Option("--keep", min=1, help="Then remove all backups there but so many, the newest.")
    ] = None,
) -> None:
    """Copy the database and every checkpoint that it names. Service and workers may go on meanwhile.

    Backups in one place share their checkpoints: only new ones are copied. Ends with exit code 1 where networks are
    missing that the backup before did not miss; no older backup is removed then.
    """
    settings = load_settings()
    archive = Archive(target)
    with translate_os_errors(), closing(connect_ledger(database or settings.database_url)) as ledger:
        result = ledger.backups.create(
            settings.checkpoint_store, archive, settings.home, datetime.now(UTC), _print_progress
        )
        if keep is not None and not result.newly_absent:
            archive.remove_oldest(keep, datetime.now(UTC), _print_progress)
    existing = len(result.manifest.checkpoints) - result.copied
    _print(
        f"{archive}: backup {result.moment}, {_contents(result.manifest)} ({result.copied} copied, {existing} there "
        "already)"
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
        str | None, typer.Option("--backup", help="Moment of the backup, as its files are named; else the newest.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="In place of the studies that are there.")] = False,
    without_damaged: Annotated[
        bool, typer.Option("--without-damaged", help="Leave out networks that are damaged or gone, keep the rest.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look through every file of the backup.")] = False,
) -> None:
    """Put a backup back into this database, of either kind, and these checkpoints. Stop service and workers first.

    Everything is verified before anything is written. A study that was running waits for a worker.
    """
    settings = load_settings()
    archive = Archive(source)
    manifest = archive.read_manifest(moment)
    with translate_os_errors(), closing(connect_ledger(database or settings.database_url)) as ledger:
        if not dry_run:
            ledger.backups.check_target(overwrite=overwrite)
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
    existing = len(backup_files.manifest.checkpoints) - written
    _print(
        f"{summary} ({written} written, {existing} there already), restored; {backup_files.running} studies wait to "
        "resume"
    )


def _contents(manifest: Manifest) -> str:
    size = (manifest.database.size + sum(file.size for file in manifest.checkpoints)) / 1e6
    missing = f", {len(manifest.absent)} MISSING" if manifest.absent else ""
    return f"{manifest.rows.get('study', 0)} studies, {len(manifest.checkpoints)} checkpoints{missing}, {size:,.1f} MB"


def _print_progress(line: str) -> None:
    errors.print(line, markup=False, highlight=False, soft_wrap=True)


def _print(line: str) -> None:
    results.print(line, markup=False, highlight=False, soft_wrap=True)
