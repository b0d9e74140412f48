"""Standard streams that a command can write to wherever it runs: closed, full, or without Unicode.

The module loads nothing but the standard library: the entry point calls it first.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

_FAILED = 1
_BROKEN_PIPE = 141
"""Exit codes of a command whose output cannot be written; `ExitCode` has them, too."""

_ERROR_HANDLER = "bln_search.transliterate"

_ASCII_TEXTS = {
    **dict.fromkeys("‐‑‒–—−─━", "-"),
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰", "+"),
    **dict.fromkeys("·•", "*"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("█▇▆▅▄▃▂▁", "#"),
    "…": "...",
    "×": "x",
    "→": "->",
    "←": "<-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "±": "+/-",
    "≈": "~",
    "✓": "ok",
    "ß": "ss",
    "λ": "lambda",
}


class UnwritableOutputError(OSError):
    """Standard output cannot be written, for another reason than a closed pipe."""


class _StandardOutput(io.FileIO):
    """Standard output whose errors differ from those of other files."""

    def write(self, data: object, /) -> int:
        """Write; wait where the reader of a non-blocking pipe is slow. Raises UnwritableOutputError."""
        try:
            while (written := super().write(data)) is None:  # type: ignore[arg-type]
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UnwritableOutputError(error.errno, error.strerror) from None
        return written


class _StandardError(io.FileIO):
    """Standard error that drops what cannot be written: a message must not end a command."""

    def write(self, data: object, /) -> int:
        """Write, or drop the data; that of a full non-blocking pipe, too."""
        written = None
        with suppress(OSError):
            written = super().write(data)  # type: ignore[arg-type]
        return len(memoryview(data)) if written is None else written  # type: ignore[arg-type]


def prepare_standard_streams() -> None:
    """Let standard streams accept every text, also where they are closed or their encoding lacks a character.

    A closed descriptor is opened, because the next file, such as a database, would receive what libraries print.
    Writing to a closed standard output fails as writing to a full disk does; text for a closed standard error is lost.
    """
    codecs.register_error(_ERROR_HANDLER, _transliterate)
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            _open_null_device(descriptor, flags)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrap(_StandardOutput(1, "w", closefd=False), sys.__stdout__)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrap(_StandardError(2, "w", closefd=False), sys.__stderr__)


def _open_null_device(descriptor: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)


def _wrap(raw: io.FileIO, previous: TextIO | None) -> TextIO:
    """Return a text stream to `raw` that has encoding and buffering of the previous one, if there is one."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if previous is None else previous.encoding,
        errors=_ERROR_HANDLER,
        line_buffering=raw.isatty() or isinstance(raw, _StandardError),
        write_through=os.environ.get("PYTHONUNBUFFERED", "") != "",
    )


def _transliterate(error: UnicodeError) -> tuple[str, int]:
    """Return ASCII in the place of characters that the encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_character_to_ascii, error.object[error.start : error.end])), error.end


def _character_to_ascii(character: str) -> str:
    """Return `->` for an arrow, `u` for ü, `lambda` for λ, and `?` for what has no ASCII."""
    import unicodedata

    if character in _ASCII_TEXTS:
        return _ASCII_TEXTS[character]
    name = unicodedata.name(character, "")
    if name.startswith("GREEK "):
        return name.rpartition("LETTER ")[2].partition(" ")[0].lower()
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


@contextmanager
def report_unwritable_output() -> Iterator[None]:
    """Flush standard output at the end, and end the process where it cannot be written.

    A closed pipe ends it quietly, as SIGPIPE would: the reader, such as `head`, needs no more. Everything else is one
    line on standard error.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, UnwritableOutputError) as error:
        _end(error)
    except SystemExit as end:
        if isinstance(end.__context__, (BrokenPipeError, UnwritableOutputError)):  # Rich and Typer exit with code 1
            _end(end.__context__)
        raise


def _end(error: OSError) -> NoReturn:
    _drop_later_output()
    if isinstance(error, BrokenPipeError):
        sys.exit(_BROKEN_PIPE)
    sys.stderr.write(f"error: standard output cannot be written ({error.strerror}); finished results are stored\n")
    sys.exit(_FAILED)


def _drop_later_output() -> None:
    """Let standard output write to nowhere: the interpreter flushes it when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(null, sys.stdout.fileno())
    os.close(null)
