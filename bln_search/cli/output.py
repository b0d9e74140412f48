"""Output: results on standard output, everything else on standard error, and files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from bln_search.cli.local_time import format_local_time
from bln_search.core.credentials import redact_secrets
from bln_search.core.errors import OutputFileError
from bln_search.core.files.atomic import write_atomically
from bln_search.core.states import TrialState
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.reports.tables.line_wrapping import wrap_line

if TYPE_CHECKING:
    from bln_search.specs.records import TrialRecord

_PIPE_WIDTH = 1_000
"""Width in characters of output that is not a terminal, unless COLUMNS is set; nothing is wrapped there."""

_NAME_WIDTH = 24
"""Longest name in characters that a narrow terminal shows in full."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)")
_MINUTE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d([+-]\d\d:\d\d)?")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?%?")


def choose_output_width(environment: Mapping[str, str], *, is_terminal: bool) -> int | None:
    """Width in characters of the results; None for that of the terminal. A terminal and a pipe respect COLUMNS."""
    columns = environment.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return None if is_terminal else _PIPE_WIDTH


class _RenderableWithTrimmedLines:
    """A renderable without spaces at the ends of its lines, which Rich writes to fill cells and the width."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments of each line up to its last visible character."""
        for segments, ends_line in _iter_lines_of_segments(console.render(self._renderable, options)):
            while segments and not segments[-1].control and not segments[-1].text.rstrip(" "):
                segments.pop()
            if segments and not segments[-1].control:
                text, style, control = segments.pop()
                segments.append(Segment(text.rstrip(" "), style, control))
            yield from segments
            if ends_line:
                yield Segment.line()


def _iter_lines_of_segments(segments: Iterable[Segment]) -> Iterator[tuple[list[Segment], bool]]:
    """Yield the segments of each line, and whether a line break follows."""
    line: list[Segment] = []
    for text, style, control in segments:
        *ended, rest = (text,) if control else text.split("\n")
        for part in ended:
            yield [*line, Segment(part, style)], True
            line = []
        line.append(Segment(rest, style, control))
    yield line, False


class _TrimLinesHook(RenderHook):
    """Print every renderable without spaces at the ends of its lines."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_RenderableWithTrimmedLines(renderable) for renderable in renderables]


results = Console(width=choose_output_width(os.environ, is_terminal=sys.stdout.isatty()))
results.push_render_hook(_TrimLinesHook())
errors = Console(stderr=True, soft_wrap=not sys.stderr.isatty())
"""Wraps lines on a terminal only: elsewhere a message is one line, so that programs find it."""


def print_line(line: str, console: Console = results) -> None:
    """Print a line of a result, wrapped between words if the output has a width.

    Names and paths that are wider than the terminal stay whole, and a number stays with its unit.
    """
    if console.width < _PIPE_WIDTH:
        line = wrap_line(line, console.width)
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_note(line: str) -> None:
    """Print a line on standard error: progress, a remark, or what a command did."""
    errors.print(line, markup=False, highlight=False)


def make_progress_line_printer(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line of progress; with `quiet` it prints nothing."""
    return (lambda line: None) if quiet else print_note  # noqa: ARG005 - nothing is printed


def print_failed_trials(trials: Iterable[TrialRecord]) -> None:
    """Print the failed trials with their reasons."""
    for trial in trials:
        if trial.state is TrialState.FAILED:
            print_note(f"failed: {trial.arm} seed {trial.seed}: {trial.reason}")


def print_error(message: str) -> None:
    """Print an error of a command that exits with a code of its own, without what looks like a secret."""
    errors.print(Text.assemble(("error:", "bold red"), f" {redact_secrets(message)}"), highlight=False)


class RecordsFormat(StrEnum):
    """Format of printed results."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class DocumentFormat(StrEnum):
    """Format of a result that is one document."""

    TABLE = "table"
    JSON = "json"


class LeaderboardFormat(StrEnum):
    """Format of a leaderboard."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    LATEX = "latex"
    MARKDOWN = "markdown"
    PARQUET = "parquet"

    @classmethod
    def of_file(cls, path: Path) -> LeaderboardFormat:
        """The format of the ending of a file; a table for any other ending."""
        ending = path.suffix.lower().removeprefix(".")
        names = {"tex": "latex", "md": "markdown"}
        return next((member for member in cls if member == names.get(ending, ending)), cls.TABLE)


def check_output_path_writable(path: Path) -> None:
    """Raise OutputFileError if a file cannot be written to `path`; called before anything is computed for it."""
    with _name_output_file(path):
        if path.exists() and not path.is_file():
            raise OutputFileError(
                f"{path} is not a regular file: choose another with --output, or redirect standard output"
            )
        if not path.parent.is_dir():
            raise OutputFileError(
                f"{path} cannot be written: create the folder {path.parent} first, or choose another file with --output"
            )


def write_file_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises OutputFileError if it cannot be written."""
    check_output_path_writable(path)
    umask = os.umask(0)
    os.umask(umask)
    with _name_output_file(path):
        write_atomically(path.resolve(), content, mode=0o666 & ~umask)


@contextmanager
def _name_output_file(path: Path) -> Iterator[None]:
    """Translate an OSError into an OutputFileError that names the file."""
    try:
        yield
    except OSError as error:
        raise OutputFileError(
            f"{path} cannot be written ({error.strerror}): choose another file with --output"
        ) from None


@contextmanager
def os_errors_as_output_errors() -> Iterator[None]:
    """Translate an OSError into an OutputFileError, which is printed as one line."""
    try:
        yield
    except OSError as error:
        location = f"{error.filename}: " if error.filename else ""
        raise OutputFileError(f"{location}{error.strerror or error}") from None


def write_to_file_or_stdout(content: bytes, to: Path | None) -> None:
    """Write to a file, or to standard output if `to` is None."""
    if to is not None:
        write_file_atomically(to, content)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def print_records_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], title: str = "", optional: Sequence[str] = ()
) -> None:
    """Print rows as a table on standard output; arguments of `make_records_table`."""
    results.print(make_records_table(rows, columns, title, optional))


def make_records_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], title: str = "", optional: Sequence[str] = ()
) -> FittedTable:
    """A table of rows: numbers on the right, times to the minute, sentences folded, columns without a value dropped.

    Args:
        rows: Values by column.
        columns: Columns from left to right.
        title: Line above the table.
        optional: Columns that are dropped if the table is too wide, in this order.
    """
    order = {name: position for position, name in enumerate(optional, start=1)}
    return FittedTable(
        [_make_fitting_column(name, [row[name] for row in rows], order.get(name)) for name in columns], title
    )


def _make_fitting_column(name: str, values: Sequence[object], drop_order: int | None) -> Column:
    cells = [_format_cell(value) for value in values]
    if all(_NUMBER.fullmatch(cell) for cell in cells if cell):
        return Column(name, cells, CellKind.NUMBER, drop_order=drop_order)
    if any(" " in cell and not _MINUTE.fullmatch(cell) for cell in cells):
        return Column(name, cells, CellKind.TEXT, drop_order=drop_order)
    short = [cell if len(cell) <= _NAME_WIDTH else f"{cell[: _NAME_WIDTH - 1]}…" for cell in cells]
    if short == cells:
        return Column(name, cells, CellKind.CODE, drop_order=drop_order)
    note = f"{name} in full"
    return Column(
        name, cells, CellKind.CODE, drop_order=drop_order, short_cells=short, shorten_order=0, short_note=note
    )


def _format_cell(value: object) -> str:
    text = "" if value is None else str(value)
    moment = _MOMENT.fullmatch(text)
    return text if moment is None else format_local_time(datetime.fromisoformat(text))
