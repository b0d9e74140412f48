"""Exit codes."""

from __future__ import annotations

from enum import IntEnum


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
