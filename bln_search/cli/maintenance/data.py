"""Commands for data sets: list, verify, fetch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bln_search.cli.options import DataOption, FormatOption, QuietOption, add_environment_variable_to_help
from bln_search.cli.output import RecordsFormat, make_progress_line_printer, print_line, print_note
from bln_search.cli.records import print_records
from bln_search.core.errors import BlnSearchError, DataError
from bln_search.core.names import format_count_with_noun
from bln_search.core.tasks import TaskName
from bln_search.settings import load_settings

if TYPE_CHECKING:
    from bln_search.data import DataSet
    from bln_search.data.catalog import CatalogEntry

app = typer.Typer(no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a data set in `data list`.")]
FetchOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help=add_environment_variable_to_help("Folder of data sets, created if it does not exist.", "data"),
    ),
]


@app.command("list")
def list_data(data: DataOption = None, output_format: FormatOption = RecordsFormat.TABLE) -> None:
    """List the data sets and whether their files are present."""
    from bln_search.data.catalog import list_catalog_entries

    settings = load_settings()
    records = [
        {
            "name": entry.name,
            "about": entry.about,
            "files": _describe_file_state(entry, data or settings.data_folder, settings.cache),
        }
        for entry in list_catalog_entries()
    ]
    print_records(records, ("name", "about", "files"), output_format)


def _describe_file_state(entry: CatalogEntry, data: Path, cache: Path) -> str:
    from bln_search.data.catalog import has_decoded_copy

    missing, total = count_missing_and_all_files(entry, data)
    if not missing:
        return "present"
    copy = "; a decoded copy is in the cache" if has_decoded_copy(entry, cache) else ""
    return "missing" if entry.find is not None else f"{missing} of {total} missing{copy}"


def print_note_if_data_set_is_missing(
    entry: CatalogEntry, data: Path, cache: Path, options: Mapping[str, Any] | None = None
) -> None:
    """Print that a study with a data set and its own options cannot run on this machine yet, and what to do."""
    from bln_search.data.catalog import has_decoded_copy

    missing, total = count_missing_and_all_files(entry, data, options)
    if missing and not has_decoded_copy(entry, cache):
        which = "the data set is" if entry.find is not None else f"{missing} of {total} files are"
        remedy = f"run `bln-search data fetch {entry.name}`, or set" if entry.downloads else "set"
        print_note(f"{entry.name}: {which} missing in {data}: before this study runs here, {remedy} BLN_SEARCH_DATA")


def count_missing_and_all_files(
    entry: CatalogEntry, data: Path, options: Mapping[str, Any] | None = None
) -> tuple[int, int]:
    """How many files of a data set are missing, and how many it has; one for a data set that finds its own files."""
    from bln_search.data.catalog import find_source
    from bln_search.data.files import find_file

    if entry.find is not None:
        try:
            find_source(entry, entry.find, data, options)
        except BlnSearchError:
            return 1, 1
        return 0, 1
    folders = entry.list_search_folders(data)
    has_archive = entry.archive is not None and any((folder / entry.archive.name).is_file() for folder in folders)
    missing = 0 if has_archive else sum(find_file(file, folders) is None for file in entry.files)
    return missing, len(entry.files)


@app.command()
def verify(name: NameArgument, data: DataOption = None) -> None:
    """Compare a data set's files with the published checksums, and count the examples of reviews."""
    from bln_search.data.catalog import get_catalog_entry

    check_data_set_and_print(get_catalog_entry(name), data or load_settings().data_folder)


def check_data_set_and_print(entry: CatalogEntry, folder: Path) -> None:
    """Verify a data set and print the result. Raises DataError if it is missing, damaged or not the published one."""
    from bln_search.data.catalog import find_source
    from bln_search.data.files import read_verified_file

    folders = entry.list_search_folders(folder)
    if entry.find is not None:
        source = find_source(entry, entry.find, folder)
        for line in source.verify():
            print_line(line)
        if entry.prepare is None:
            _check_data_set_and_print(replace(source.decode(), task=entry.task))
        return
    for file in entry.files:
        read_verified_file(file, folders, entry.archive)
        print_line(f"{file.name}: MD5 {file.md5}, as published")
    if entry.files:
        print_line(f"{entry.name}: {format_count_with_noun(len(entry.files), 'file', 'files')} verified")
    else:
        print_line(f"{entry.name}: part of an installed package, no file to verify")


def _check_data_set_and_print(data_set: DataSet) -> None:
    data_set.check()
    for line in (*_class_count_lines(data_set), *data_set.remarks):
        print_line(f"{data_set.name}: {line}")


def _class_count_lines(data_set: DataSet) -> list[str]:
    """Return a line for each split with the number of examples of each class; none where labels are not classes."""
    if data_set.task is not TaskName.CLASSIFICATION:
        return []
    splits = {"train": data_set.train_class_indices.tolist(), "test": data_set.test_class_indices.tolist()}
    return [
        f"{split}, {', '.join(f'{labels.count(label):,} {name}' for label, name in enumerate(data_set.classes))}"
        for split, labels in splits.items()
    ]


@app.command()
def fetch(name: NameArgument, data: FetchOption = None, quiet: QuietOption = False) -> None:
    """Download a data set's files from their publisher, and verify them."""
    from bln_search.data.catalog import get_catalog_entry

    fetch_and_verify_data_set(get_catalog_entry(name), data or load_settings().data_folder, quiet=quiet)


def fetch_and_verify_data_set(entry: CatalogEntry, folder: Path, *, quiet: bool = False) -> None:
    """Download missing or damaged files of a data set, then verify it. quiet: print no line for each download."""
    from bln_search.data.download import download_and_iter_files

    with suppress(DataError):
        check_data_set_and_print(entry, folder)
        return
    for path in download_and_iter_files(entry, folder):
        make_progress_line_printer(quiet=quiet)(f"downloaded {path}")
    check_data_set_and_print(entry, folder)
