"""The verb about trained networks on the disk: clean."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from bln_search.cli.output import errors, plain_places, results
from bln_search.cli.sources import DatabaseOption
from bln_search.core.urls import without_password
from bln_search.settings import load_settings
from bln_search.storage.cleaning import LEAST_AGE, Left, Spare, give_up, left_over, remove, spare_networks
from bln_search.storage.ledger import open_ledger

app = typer.Typer(help="Trained networks on the disk: removing those that nobody needs.", no_args_is_help=True)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Keep(StrEnum):
    """Which networks of complete studies stay."""

    ALL = "all"
    RECOMMENDED = "recommended"


@app.callback()
def _group() -> None:
    """A single verb would otherwise take the name of the group."""


@app.command()
def clean(
    older_than: Annotated[
        str, typer.Option("--older-than", help="Only files written so long ago: 90m, 12h, 7d; an hour at least.")
    ] = "1d",
    keep: Annotated[
        Keep,
        typer.Option("--keep", help="Networks of complete studies that stay: all, or those of recommended rows."),
    ] = Keep.ALL,
    best: Annotated[
        int, typer.Option("--best", min=0, help="With --keep recommended: and those of so many first rows.")
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Remove files of checkpoints that no study needs. Service and workers may go on meanwhile.

    These are what writers did not finish, networks of trials that were pruned, diverged or trained again, and those of
    deleted studies. With --keep recommended, complete studies give up their other networks; figures stay, and the
    recommended network is never removed.
    """
    age = _age(older_than)
    settings = load_settings()
    store = settings.checkpoint_store
    if database not in (None, settings.database_url):
        raise typer.BadParameter(
            f"files in {store} may belong to {without_password(settings.database_url)}: set BLN_SEARCH_DATABASE to the "
            "database and BLN_SEARCH_CHECKPOINTS to its place of checkpoints",
            param_hint="--database",
        )
    with plain_places(), closing(open_ledger(settings.database_url)) as ledger:
        spare = spare_networks(ledger, best) if keep is Keep.RECOMMENDED else []
        left = left_over(ledger, store, age, spare)
        if not dry_run:
            give_up(ledger, spare)
        removed, size = (len(left.files), left.size) if dry_run else remove(store, left)
    for one in spare:
        if one.why is not None:
            errors.print(f"study {one.study_id} ({one.name}) keeps all: {one.why}", markup=False, soft_wrap=True)
    results.print(_told(left, spare, removed, size, dry_run=dry_run), markup=False, highlight=False, soft_wrap=True)


def _age(written: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([mhd])", written)
    if found is None:
        raise typer.BadParameter(f"{written!r} is no length of time: write 90m, 12h or 7d", param_hint="--older-than")
    age = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if age < LEAST_AGE:
        raise typer.BadParameter(
            "younger files may belong to a trial under way: 1h at least", param_hint="--older-than"
        )
    return age


def _told(left: Left, spare: list[Spare], removed: int, size: int, *, dry_run: bool) -> str:
    parts = [f"{removed} files {'would be ' if dry_run else ''}removed, {size / 1e6:,.1f} MB"]
    given = sum(len(one.files) for one in spare)
    if given:
        parts.append(f"{given} networks {'would be ' if dry_run else ''}given up")
    if left.young:
        parts.append(f"{left.young} are too young to be sure")
    if left.foreign:
        parts.append(f"{left.foreign} are no checkpoints and stay")
    return "; ".join(parts)
