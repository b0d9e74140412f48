"""Exit codes of the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from bln_search.cli.output import print_note


class ExitCode(IntEnum):
    """Exit code of a command.

    Attributes:
        DONE: The command succeeded.
        FAILED: The command failed.
        USAGE: The command line is wrong.
        BAD_INPUT: A study file or data are invalid.
        NOT_FOUND: There is no such study.
        INCOMPLETE: The study ended, but some trials failed.
        DISK_FULL: The disk is full.
        INTERRUPTED: The user pressed Ctrl-C, or another signal stopped the command.
        BROKEN_PIPE: The reader of the output ended, as in `bln-search list | head -1`.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    BAD_INPUT = 3
    NOT_FOUND = 4
    INCOMPLETE = 5
    DISK_FULL = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class InterruptedCommandExit(SystemExit):
    """Ctrl-C in a command that has printed its own message."""


@contextmanager
def report_nothing_written_on_interrupt() -> Iterator[None]:
    """On Ctrl-C, report that nothing was written: for commands that write only at their end."""
    try:
        yield
    except KeyboardInterrupt:
        print_note("interrupted; nothing was written")
        raise InterruptedCommandExit(ExitCode.INTERRUPTED) from None
