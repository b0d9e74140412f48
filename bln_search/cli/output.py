"""Standard output for results, standard error for everything else, and files that somebody asked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bln_search.core.errors import OutputError
from bln_search.core.files import write_whole

_PIPE_WIDTH = 160
results = Console(width=None if sys.stdout.isatty() else max(_PIPE_WIDTH, shutil.get_terminal_size().columns))
errors = Console(stderr=True)
ToOption = Annotated[
    Path | None, typer.Option("--to", help="File to write, whole or not at all.", show_default="standard output")
]


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class BoardFormat(StrEnum):
    """How a ranked table is printed or written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    LATEX = "latex"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


def check_target(path: Path) -> None:
    """Raise OutputError where `path` cannot be a file of ours: before anything is computed for it."""
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is not a plain file: give another with --to, or redirect standard output")
    if not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: there is no folder {path.parent}; make it, or give another --to")


def write_file(path: Path, content: bytes) -> None:
    """Write a file that a person asked for, whole or not at all. Raises OutputError where it cannot be written."""
    check_target(path)
    umask = os.umask(0)
    os.umask(umask)
    try:
        write_whole(path.resolve(), content, mode=0o666 & ~umask)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}): give another file with --to") from None


@contextmanager
def plain_places() -> Iterator[None]:
    """What the system refuses with files that are no study's is one line, too."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise OutputError(f"{place}{error.strerror or error}") from None


def give(content: bytes, to: Path | None) -> None:
    """To the file, or to standard output where none is named."""
    if to is not None:
        write_file(to, content)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
