"""The process that builds one archive: it receives its task on standard input and reports on standard output."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

from bln_search.core.enums import ExportStep
from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    DataUnavailableOnMachineError,
    MissingPackageError,
    StorageFullError,
)
from bln_search.core.exports import StoredArchive
from bln_search.core.reasons import describe_exception
from bln_search.core.stop_signals import ignore_signals_to_process_group
from bln_search.worker.exports.archive import ArchiveTask, build_archive

_log = logging.getLogger(__name__)
_PROGRAM = "from bln_search.worker.exports.process import main; main()"
_MACHINE_FAULTS = (
    *(DataUnavailableOnMachineError, CheckpointStoreError, StorageFullError, MissingPackageError),
    *(OSError, MemoryError),
)
"""Errors that another machine, or a later attempt, may not have."""


@dataclass(frozen=True)
class BuildFailure:
    """Why an archive cannot be built. is_machine_fault: another attempt may succeed."""

    reason: str
    is_machine_fault: bool


BuildMessage = ExportStep | StoredArchive | BuildFailure
"""What a process reports: steps, then an archive or a failure."""


class ArchiveProcess:
    """A process that builds an archive. A context manager that kills it.

    It is not a process of `multiprocessing`, whose bookkeeping of trial processes does not support several threads. It
    ends with this process, for whatever reason, because then its standard input is closed.
    """

    def __init__(self, task: ArchiveTask) -> None:
        self._task = pickle.dumps(task)
        self._messages: queue.SimpleQueue[BuildMessage | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # networks are exported on the CPU
        )
        self._thread = threading.Thread(target=self._send_task_and_queue_messages, daemon=True, name="archive")

    def __enter__(self) -> Self:
        """Send the task."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not sent cannot be sent any more
                pipe.close()

    def receive_message(self, timeout: float) -> BuildMessage | None:
        """Return the next message; None if none arrives in this time, in seconds.

        The end of the process without a result is a BuildFailure by a fault of the machine.
        """
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            return BuildFailure(f"its process ended with exit code {self._process.wait()}", is_machine_fault=True)
        return message

    def _send_task_and_queue_messages(self) -> None:
        """Send the task, and put messages into the queue; None at the end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(self._task)
            self._process.stdin.flush()
            while True:
                self._messages.put(pickle.load(self._process.stdout))  # noqa: S301 - from this program itself
        except (EOFError, OSError, pickle.UnpicklingError):
            self._messages.put(None)


def main() -> None:
    """Build the archive of the task on standard input."""
    ignore_signals_to_process_group()  # the worker handles them
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print to it
    task = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the worker that started this process
    threading.Thread(target=_exit_when_parent_ends, args=(sys.stdin.fileno(),), daemon=True).start()

    def send(message: BuildMessage) -> None:
        _send(channel, message)

    try:
        send(build_archive(task, send))
    except Exception as error:  # noqa: BLE001 - every failure becomes a message
        send(_make_build_failure(error))


def _send(channel: BinaryIO, message: BuildMessage) -> None:
    pickle.dump(message, channel)
    channel.flush()


def _make_build_failure(error: Exception) -> BuildFailure:
    if isinstance(error, BlnSearchError):
        return BuildFailure(str(error), isinstance(error, _MACHINE_FAULTS))
    logging.basicConfig()
    _log.error("unexpected error in an export", exc_info=error)
    return BuildFailure(describe_exception(error), isinstance(error, _MACHINE_FAULTS))


def _exit_when_parent_ends(descriptor: int) -> None:
    """Wait for the end of standard input, whose other end the worker holds, then end at once."""
    while os.read(descriptor, 1024):
        pass
    os._exit(1)
