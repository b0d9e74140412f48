"""Exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from bln_search.cli.output import errors


class Exit(IntEnum):
    """What the exit code of a command says.

    0 done; 1 failed; 2 usage (the command line itself); 3 bad input (study file or data); 4 no such study;
    5 finished, but some trials failed; 6 disk full; 130 interrupted.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    BAD_INPUT = 3
    NOT_FOUND = 4
    INCOMPLETE = 5
    DISK_FULL = 6
    INTERRUPTED = 130


class Stopped(SystemExit):
    """Interrupted by Ctrl-C in a verb that has said so itself."""


@contextmanager
def keeping_nothing() -> Iterator[None]:
    """For verbs that write nothing before they end: Ctrl-C says that, not that the command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print("interrupted; nothing was written")
        raise Stopped(Exit.INTERRUPTED) from None
