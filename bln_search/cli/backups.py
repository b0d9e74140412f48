"""The verbs that keep a copy of everything elsewhere: backup, restore."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from bln_search.cli.exit_codes import Exit
from bln_search.cli.output import errors, plain_places, results
from bln_search.cli.sources import DatabaseOption
from bln_search.settings import load_settings
from bln_search.storage.backups import Archive, Manifest, make_backup, verified
from bln_search.storage.backups.restoring import check_target
from bln_search.storage.backups.restoring import restore as put_back
from bln_search.storage.engine import make_engine
from bln_search.storage.ledger import Ledger

PlaceArgument = Annotated[
    str, typer.Argument(help="Folder or URL (s3://bucket/folder) of backups.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(backup)
    app.command()(restore)


def backup(
    target: PlaceArgument,
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
    with plain_places(), closing(Ledger(make_engine(database or settings.database_url))) as ledger:
        made = make_backup(ledger.engine, settings.checkpoint_store, archive, settings.home, datetime.now(UTC), _say)
        if keep is not None and not made.newly_absent:
            archive.keep(keep, datetime.now(UTC), _say)
    there = len(made.manifest.checkpoints) - made.copied
    _print(f"{archive}: backup {made.moment}, {_contents(made.manifest)} ({made.copied} copied, {there} there already)")
    if made.newly_absent:
        _say(
            f"{len(made.newly_absent)} networks are missing that the backup before did not miss: see that "
            f"BLN_SEARCH_CHECKPOINTS leads to them ({settings.checkpoint_store}). No older backup was removed"
        )
        raise typer.Exit(Exit.FAILED)


def restore(
    source: PlaceArgument,
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
    manifest = archive.manifest(moment)
    with plain_places(), closing(Ledger(make_engine(database or settings.database_url))) as ledger:
        if not dry_run:
            check_target(ledger.engine, ledger.clock(), overwrite=overwrite)
        with verified(archive, manifest, settings.home, _say, without_damaged=without_damaged) as found:
            said = f"{archive}: backup of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC, {_contents(found.manifest)}"
            if dry_run:
                _print(f"{said}: every {'other ' if without_damaged else ''}file is what it was")
                return
            written = put_back(found, ledger.engine, settings.checkpoint_store, _say, overwrite=overwrite)
    there = len(found.manifest.checkpoints) - written
    _print(f"{said} ({written} written, {there} there already), restored; {found.running} studies wait to go on")


def _contents(manifest: Manifest) -> str:
    size = (manifest.database.size + sum(one.size for one in manifest.checkpoints)) / 1e6
    missing = f", {len(manifest.absent)} MISSING" if manifest.absent else ""
    return f"{manifest.rows.get('study', 0)} studies, {len(manifest.checkpoints)} checkpoints{missing}, {size:,.1f} MB"


def _say(line: str) -> None:
    errors.print(line, markup=False, highlight=False, soft_wrap=True)


def _print(line: str) -> None:
    results.print(line, markup=False, highlight=False, soft_wrap=True)
