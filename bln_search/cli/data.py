"""The verbs about data sets: list, verify, fetch."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer
from rich.table import Table

from bln_search.cli.output import errors, results
from bln_search.cli.studies import DataOption
from bln_search.core.errors import DataError
from bln_search.settings import load_settings

app = typer.Typer(
    help="Data sets: which there are, whether their files are whole, where to get them.", no_args_is_help=True
)
NameArgument = Annotated[str, typer.Argument(help="Name of a data set.")]


@app.command("list")
def list_data(data: DataOption = None) -> None:
    """List the data sets and whether their files are at hand."""
    from bln_search.data.catalog import CATALOG
    from bln_search.data.files import find_file

    folder = data or load_settings().data_folder
    table = Table(header_style="bold")
    for column in ("name", "about", "files"):
        table.add_column(column)
    for entry in CATALOG.values():
        folders = entry.folders(folder)
        missing = [file.name for file in entry.files if find_file(file, folders) is None]
        archived = entry.archive is not None and any((each / entry.archive.name).is_file() for each in folders)
        state = "at hand" if not missing or archived else f"{len(missing)} of {len(entry.files)} missing"
        table.add_row(entry.name, entry.about, state)
    results.print(table)


@app.command()
def verify(name: NameArgument, data: DataOption = None) -> None:
    """Unpack a data set's files and compare them with the published checksums."""
    from bln_search.data.catalog import find_entry
    from bln_search.data.files import read_file

    entry = find_entry(name)
    folders = entry.folders(data or load_settings().data_folder)
    for file in entry.files:
        read_file(file, folders, entry.archive)
        results.print(f"{file.name}: MD5 {file.md5}, as published")
    results.print(f"{name}: {len(entry.files)} files verified" if entry.files else f"{name} needs no files")


@app.command()
def fetch(name: NameArgument, data: DataOption = None) -> None:
    """Get a data set's files from where they are distributed, and verify them."""
    from bln_search.data.catalog import find_entry
    from bln_search.data.fetch import fetch_files

    entry = find_entry(name)
    folder = data or load_settings().data_folder
    with suppress(DataError):
        verify(name, folder)
        return
    for path in fetch_files(entry, folder):
        errors.print(f"got {path}", soft_wrap=True)
    verify(name, folder)
