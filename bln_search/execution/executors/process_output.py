"""What the processes of trials print: forwarded to standard error, with a limit for each trial."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from bln_search.execution.executors.process_server import CONTEXT

MAX_OUTPUT_BYTES = 1_000_000
"""Number of bytes that the process of a trial may print; user code may print in every mini-batch."""

_READ_BYTES = 65_536
_WAIT_SECONDS = 1.0


class ProcessOutput:
    """Reads what one process prints and forwards it to standard error.

    A thread of this process reads, so that the last words of a process that crashes are not lost.

    Attributes:
        writer: Connection that the process passes to `print_to_connection`; closed here after its start.
    """

    def __init__(self) -> None:
        self._reader, self.writer = CONTEXT.Pipe(duplex=False)
        self._left = MAX_OUTPUT_BYTES
        self._thread = threading.Thread(target=self._forward_until_closed, daemon=True)
        self._thread.start()

    def allow_for_next_trial(self) -> None:
        """Reset the limit: the process runs another trial."""
        self._left = MAX_OUTPUT_BYTES

    def wait_until_forwarded(self) -> None:
        """Wait for the rest of the output of a process that has ended; its children may hold the connection open."""
        self._thread.join(_WAIT_SECONDS)

    def _forward_until_closed(self) -> None:
        with suppress(OSError, ValueError), self._reader:  # standard error may be closed
            while part := os.read(self._reader.fileno(), _READ_BYTES):
                self._forward(part)

    def _forward(self, part: bytes) -> None:
        left, self._left = self._left, self._left - len(part)
        if left <= 0:
            return
        text = part[:left].decode(errors="replace")
        if self._left <= 0:
            text += f"\n… a trial printed {MAX_OUTPUT_BYTES:,} bytes; the rest is left out\n"
        sys.stderr.write(text)
        sys.stderr.flush()


def print_to_connection(writer: Connection) -> None:
    """Let everything that this process prints, by C libraries too, go to the connection."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(writer.fileno(), 1)
    os.dup2(writer.fileno(), 2)
    writer.close()
